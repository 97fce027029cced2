#include "tools/peers/workload.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tutti::tools::peers {
namespace {

constexpr std::string_view names[] = {"all_reduce",     "all_reduce_inplace",
                                      "broadcast",      "all_gather",
                                      "reduce_scatter", "alltoall",
                                      "reduce",         "gather",
                                      "scatter",        "barrier",
                                      "sendrecv"};
static_assert(std::size(names) == std::size(all_calls));

constexpr std::size_t period = 61;  // a prime: parts of every size begin elsewhere in it
using Values = std::array<float, period>;

float given(int rank, std::size_t place) {
  return static_cast<float>((place * 7 + static_cast<std::size_t>(rank) * 13 + 3) % period);
}

Values given_by(int rank) {
  Values values{};
  for (std::size_t i = 0; i < period; ++i) values[i] = given(rank, i);
  return values;
}

Values sum_of_all(int ranks) {
  Values values{};
  for (std::size_t i = 0; i < period; ++i)
    for (int rank = 0; rank < ranks; ++rank) values[i] += given(rank, i);
  return values;
}

/// Of `count` elements, the first of which is at `first` in the pattern.
std::uint64_t differing(const float* elements, std::size_t count, const Values& values, std::size_t first) {
  std::uint64_t wrong = 0;
  std::size_t place = first % period;
  for (std::size_t i = 0; i < count; ++i) {
    if (elements[i] != values[place]) ++wrong;
    place = place + 1 == period ? 0 : place + 1;
  }
  return wrong;
}

bool has_parts(Call call) {
  return call == Call::all_gather || call == Call::reduce_scatter || call == Call::all_to_all || call == Call::gather ||
         call == Call::scatter;
}

}  // namespace

std::string_view name_of(Call call) { return names[static_cast<std::size_t>(call)]; }

std::optional<Call> find_call(std::string_view name) {
  for (const Call call : all_calls)
    if (name_of(call) == name) return call;
  return {};
}

Task task_of(Call call, int rank, int ranks, std::size_t bytes) {
  Task task{call, rank, ranks, 0, 0, 0, 0};
  if (call == Call::barrier) return task;
  const std::size_t elements = std::max<std::size_t>(1, (bytes + sizeof(float) - 1) / sizeof(float));
  const auto parts = has_parts(call) ? static_cast<std::size_t>(ranks) : 1;
  task.part = (elements + parts - 1) / parts;
  const std::size_t all = task.part * parts;
  task.bytes = all * sizeof(float);
  task.input = call == Call::all_gather || call == Call::gather ? task.part : all;
  task.output = call == Call::reduce_scatter || call == Call::scatter ? task.part : all;
  return task;
}

void fill(const Task& task, float* input, float* output) {
  const Values values = given_by(task.rank);
  std::size_t place = 0;
  for (std::size_t i = 0; i < task.input; ++i) {
    input[i] = values[place];
    place = place + 1 == period ? 0 : place + 1;
  }
  const bool in_place = task.call == Call::all_reduce_in_place || (task.call == Call::broadcast && task.rank == 0);
  if (in_place) {
    std::memcpy(output, input, task.output * sizeof(float));
  } else {
    std::fill_n(output, task.output, -1.0F);
  }
}

std::uint64_t count_wrong(const Task& task, const float* output) {
  const auto me = static_cast<std::size_t>(task.rank);
  switch (task.call) {
    case Call::all_reduce:
    case Call::all_reduce_in_place:
      return differing(output, task.output, sum_of_all(task.ranks), 0);
    case Call::reduce:
      return task.rank == 0 ? differing(output, task.output, sum_of_all(task.ranks), 0) : 0;
    case Call::broadcast:
      return differing(output, task.output, given_by(0), 0);
    case Call::reduce_scatter:
      return differing(output, task.output, sum_of_all(task.ranks), me * task.part);
    case Call::scatter:
      return differing(output, task.output, given_by(0), me * task.part);
    case Call::send_recv:
      return differing(output, task.output, given_by((task.rank + task.ranks - 1) % task.ranks), 0);
    case Call::barrier:
      return 0;
    case Call::gather:
    case Call::all_gather:
    case Call::all_to_all:
      break;
  }
  if (task.call == Call::gather && task.rank != 0) return 0;
  std::uint64_t wrong = 0;
  for (int rank = 0; rank < task.ranks; ++rank)
    wrong += differing(output + static_cast<std::size_t>(rank) * task.part, task.part, given_by(rank),
                       task.call == Call::all_to_all ? me * task.part : 0);
  return wrong;
}

}  // namespace tutti::tools::peers
