#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tutti/types.h"

// The data of a point of the comparison, and the expected result: float32, sums, root 0.

namespace tutti::cli::measure {

enum class Call : std::uint8_t {
  all_reduce,
  all_reduce_in_place,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  reduce,
  gather,
  scatter,
  barrier,
  send_recv,  ///< to the next rank, from the one before, both at once
  scan,
  exclusive_scan,
};
inline constexpr Call all_calls[] = {Call::all_reduce,     Call::all_reduce_in_place,
                                     Call::broadcast,      Call::all_gather,
                                     Call::reduce_scatter, Call::all_to_all,
                                     Call::reduce,         Call::gather,
                                     Call::scatter,        Call::barrier,
                                     Call::send_recv,      Call::scan,
                                     Call::exclusive_scan};

/// As `tutti bench` and nccl-tests spell them: "alltoall"; and "all_reduce_inplace".
std::string_view name_of(Call call);
std::optional<Call> find_call(std::string_view name);
/// `barrier` for send_recv, which is not a collective.
Collective collective_of(Call call);

/// Counts are in elements, except `bytes`.
struct Task {
  Call call = Call::barrier;
  int rank = 0;
  int ranks = 1;
  std::size_t bytes = 0;   ///< of the larger buffer, as nccl-tests counts; the requested size rounded up to whole parts
  std::size_t input = 0;   ///< of a rank
  std::size_t output = 0;  ///< of a rank
  std::size_t part = 0;    ///< per rank, if there are parts; else all
};
Task task_of(Call call, int rank, int ranks, std::size_t bytes);

/// Small integers, so that sums of up to 64 ranks are exact, different for every rank and nearly every place. Memory
/// that the call must write is poisoned. If the call works in place, or this rank sends (broadcast's root), the output
/// holds the input.
void fill(const Task& task, float* input, float* output);
/// Elements of the output that differ from the expected result of this rank.
std::uint64_t count_wrong(const Task& task, const float* output);

}  // namespace tutti::cli::measure
