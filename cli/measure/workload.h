#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tutti/types.h"

// What a point of the comparison moves, and what must come of it: float32, sums, root 0.

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
/// `barrier` for send_recv, which is none.
Collective collective_of(Call call);

/// Elements, not bytes, but for `bytes`.
struct Task {
  Call call = Call::barrier;
  int rank = 0;
  int ranks = 1;
  std::size_t bytes = 0;  ///< of the larger buffer, as nccl-tests counts; what was asked for, rounded up to whole parts
  std::size_t input = 0;  ///< of a rank
  std::size_t output = 0;  ///< of a rank
  std::size_t part = 0;    ///< per rank, where there are parts; else all
};
Task task_of(Call call, int rank, int ranks, std::size_t bytes);

/// Small integers, so that sums of up to 64 ranks are exact, different for every rank and nearly every place. What the
/// call must write is spoiled; where it works in place, or gives (broadcast's root), the output holds the input.
void fill(const Task& task, float* input, float* output);
/// Elements of the output that are not what the call must give this rank.
std::uint64_t count_wrong(const Task& task, const float* output);

}  // namespace tutti::cli::measure
