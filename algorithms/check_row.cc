#include "algorithms/check_row.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tutti::algorithms {

Verdict check_row(Collective collective, const Shape& shape, const RowProgram& program) {
  Verdict verdict;
  std::vector<int> sorted = program.row;
  std::sort(sorted.begin(), sorted.end());
  for (int rank = 0; rank < shape.ranks; ++rank)
    if (std::cmp_not_equal(sorted.size(), shape.ranks) || sorted[static_cast<std::size_t>(rank)] != rank) {
      verdict.problems.emplace_back("not every rank is in the row once");
      return verdict;
    }
  std::vector<Plan> plans;
  const int blocks = shape.ranks * shape.pipeline, last = program.row.back();
  const Blocks input{Buffer::input, 0, blocks}, output{Buffer::output, 0, blocks};
  for (int rank = 0; rank < shape.ranks; ++rank) {
    Shape own = shape;
    own.rank = rank;
    PlanBuilder plan{own};
    const auto place = std::find(program.row.begin(), program.row.end(), rank);
    const bool is_first = place == program.row.begin(), is_last = rank == last;
    const Blocks sum = is_last ? output : is_first ? input : plan.scratch(input);
    if (is_first && is_last) plan.copy(output, input);
    if (!is_first) plan.recv_reduce(*(place - 1), sum, input);
    if (!is_last) plan.send(*(place + 1), sum);
    for (int other = 0; program.is_spread && other < shape.ranks; ++other)
      if (is_last && other != rank) plan.send(other, output);
    if (program.is_spread && !is_last) plan.recv(last, output);
    plans.push_back(std::move(plan).build());
  }
  return check(collective, plans);
}

}  // namespace tutti::algorithms
