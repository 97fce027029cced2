#include "cli/simulate/call_timer.h"

#include <algorithm>
#include <cmath>

#include "cli/measure/median.h"

namespace tutti::cli::simulate {
namespace {

constexpr std::size_t large_call = 1 << 20;

tune::Order order_of(measure::MeasuredCall call, std::size_t bytes) {
  tune::Order order;
  order.call = call;
  order.bytes = bytes;
  return order;
}

tune::WorkerOptions options_of(const Placement& place, int ranks, std::size_t most_bytes) {
  tune::WorkerOptions options{place.transport, ranks, most_bytes, "", true};
  options.who = "simulate";
  if (!place.namespaces.empty()) options.namespaces.assign(place.namespaces.begin(), place.namespaces.begin() + ranks);
  return options;
}

}  // namespace

CallTimer::CallTimer(const Placement& place, int ranks, std::size_t most_bytes)
    : apart_(!place.namespaces.empty()), workers_(options_of(place, ranks, most_bytes)) {}

double CallTimer::time(measure::MeasuredCall call, const std::string& algorithm, std::size_t bytes) {
  if (apart_) return time_apart(call, algorithm, bytes);
  tune::Order order = order_of(call, bytes);
  order.add(algorithm, bytes <= large_call ? 5 : 1, bytes <= large_call ? 21 : 5);
  double least = HUGE_VAL;
  for (int i = 0; i < 3; ++i) least = std::min(least, workers_.measure(order).at(0));
  return least;
}

double CallTimer::time_apart(measure::MeasuredCall call, const std::string& algorithm, std::size_t bytes) {
  constexpr std::size_t most_calls = 21;
  constexpr double enough = 500e3;  // microseconds
  tune::Order order = order_of(call, bytes);
  order.add(algorithm, bytes <= large_call ? 1 : 0, 1);
  std::vector<double> times;
  double spent = 0;
  while (times.empty() || (times.size() < most_calls && spent < enough)) {
    times.push_back(workers_.measure(order).at(0));
    spent += times.back();
  }
  return measure::median(times);
}

double CallTimer::time_in_a_row(measure::MeasuredCall call, const std::string& algorithm, std::size_t bytes) {
  tune::Order order = order_of(call, bytes);
  order.loop = true;
  order.add(algorithm, 5, 200);
  double least = HUGE_VAL;
  for (int i = 0; i < 3; ++i) least = std::min(least, workers_.measure(order).at(0));
  return least;
}

}  // namespace tutti::cli::simulate
