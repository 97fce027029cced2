#include "cli/measure/workload.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tutti::cli::measure {
namespace {

constexpr std::size_t period = 61;  // a prime, so that parts of all sizes begin at different places in it
using Values = std::array<float, period>;

float given(int rank, std::size_t place) {
  return static_cast<float>((place * 7 + static_cast<std::size_t>(rank) * 13 + 3) % period);
}

Values given_by(int rank) {
  Values values{};
  for (std::size_t i = 0; i < period; ++i) values[i] = given(rank, i);
  return values;
}

/// The sum of the first `ranks` ranks.
Values sum_of(int ranks) {
  Values values{};
  for (std::size_t i = 0; i < period; ++i)
    for (int rank = 0; rank < ranks; ++rank) values[i] += given(rank, i);
  return values;
}

/// Compares `count` elements, the first of which is at `first` in the pattern.
std::uint64_t differing(const float* elements, std::size_t count, const Values& values, std::size_t first) {
  std::uint64_t wrong = 0;
  std::size_t place = first % period;
  for (std::size_t i = 0; i < count; ++i) {
    if (elements[i] != values[place]) ++wrong;
    place = place + 1 == period ? 0 : place + 1;
  }
  return wrong;
}

}  // namespace

Task task_of(MeasuredCall call, int rank, int ranks, std::size_t bytes) {
  Task task{call, rank, ranks, 0, 0, 0, 0};
  if (call == Collective::barrier) return task;
  const std::size_t elements = std::max<std::size_t>(1, (bytes + sizeof(float) - 1) / sizeof(float));
  const auto parts = call.traits().has_parts() ? static_cast<std::size_t>(ranks) : 1;
  task.part = (elements + parts - 1) / parts;
  const std::size_t all = task.part * parts;
  task.bytes = all * sizeof(float);
  task.input = call.traits().gathers() ? task.part : all;
  task.output = call.traits().scatters() ? task.part : all;
  return task;
}

void fill(const Task& task, float* input, float* output) {
  const Values values = given_by(task.rank);
  std::size_t place = 0;
  for (std::size_t i = 0; i < task.input; ++i) {
    input[i] = values[place];
    place = place + 1 == period ? 0 : place + 1;
  }
  const bool in_place = task.call == all_reduce_in_place || (task.call == Collective::broadcast && task.rank == 0);
  if (in_place) {
    std::memcpy(output, input, task.output * sizeof(float));
  } else {
    std::fill_n(output, task.output, -1.0F);
  }
}

std::uint64_t count_wrong(const Task& task, const float* output) {
  const auto me = static_cast<std::size_t>(task.rank);
  const detail::CollectiveTraits& traits = task.call.traits();
  if (task.call == send_recv)
    return differing(output, task.output, given_by((task.rank + task.ranks - 1) % task.ranks), 0);
  if (!traits.output.is_at(task.rank, 0)) return 0;
  const std::size_t first = traits.scatters() ? me * task.part : 0;
  if (traits.reduces()) return differing(output, task.output, sum_of(traits.folded(task.rank, task.ranks)), first);
  if (traits.output.extent != detail::Extent::parts) return differing(output, task.output, given_by(0), first);
  std::uint64_t wrong = 0;
  for (int rank = 0; rank < task.ranks; ++rank)
    wrong += differing(output + static_cast<std::size_t>(rank) * task.part, task.part, given_by(rank),
                       task.call == Collective::all_to_all ? me * task.part : 0);
  return wrong;
}

}  // namespace tutti::cli::measure
