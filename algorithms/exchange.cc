#include "algorithms/exchange.h"

#include <utility>

namespace tutti::algorithms {

std::optional<Exchange> exchange_of(const Plan& plan) {
  Exchange exchange;
  std::vector<std::uint32_t> waits_for = plan.waits_for;
  for (StepId step = 0; step < plan.steps.size(); ++step) {
    const Verb verb = plan.steps[step].verb;
    if (verb == Verb::copy) {
      exchange.copies.push_back(step);
      continue;
    }
    if (verb != Verb::send && verb != Verb::recv) return std::nullopt;
    StepId& only = verb == Verb::send ? exchange.send : exchange.recv;
    if (std::exchange(only, step) != no_step || waits_for[step] > 0) return std::nullopt;
  }
  if (exchange.send != no_step) {
    for (const StepId next : plan.successors(exchange.send)) {
      --waits_for[next];
      exchange.copies_wait = true;
    }
  }
  for (const StepId copy : exchange.copies)
    if (waits_for[copy] > 0) return std::nullopt;
  return exchange;
}

}  // namespace tutti::algorithms
