#include "algorithms/proofs.h"

#include <fmt/format.h>

#include "algorithms/check.h"
#include "tutti/error.h"

namespace tutti::algorithms {

std::size_t weight(const Plan& plan) {
  const auto blocks_of = [](int count) { return static_cast<std::size_t>(count); };
  std::size_t blocks = plan.scratch_like.size() + blocks_of(plan.shape.ranks * plan.shape.pipeline);
  for (const Step& step : plan.steps) blocks += blocks_of(step.dst.count + step.left.count + step.right.count) + 1;
  return blocks;
}

void Proofs::require(const Choice& choice, int ranks, int root) {
  const std::scoped_lock lock{mutex_};
  const auto key = std::tuple{choice.entry, ranks, root, choice.pipeline, choice.radix, choice.domains};
  if (proved_.contains(key)) return;
  const Plan first = choice.entry->build(shape_of(choice, root, ranks, root));
  if (weight(first) <= most_blocks_to_prove / static_cast<std::size_t>(ranks)) {
    const Verdict verdict = check(choice, ranks, root);
    if (!verdict.ok())
      throw Error{ErrorCode::unsupported,
                  fmt::format("the plan {} of {} over {} ranks is wrong and was not run: {} (`tutti plan {} --algo {} "
                              "-n {} --check` shows all of it)",
                              to_string(choice), name_of(choice.entry->collective), ranks, verdict.problems.front(),
                              name_of(choice.entry->collective), to_string(choice), ranks)};
  }
  proved_.insert(key);
}

}  // namespace tutti::algorithms
