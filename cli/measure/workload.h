#pragma once

#include <cstddef>
#include <cstdint>

#include "cli/measure/call.h"

// The data of a point of the comparison, and the expected result: float32, sums, root 0.

namespace tutti::cli::measure {

/// Counts are in elements, except `bytes`.
struct Task {
  MeasuredCall call;
  int rank = 0;
  int ranks = 1;
  std::size_t bytes = 0;   ///< of the larger buffer, as nccl-tests counts; the requested size rounded up to whole parts
  std::size_t input = 0;   ///< of a rank
  std::size_t output = 0;  ///< of a rank
  std::size_t part = 0;    ///< per rank, if there are parts; else all
};
/// Not for all_to_all_v.
Task task_of(MeasuredCall call, int rank, int ranks, std::size_t bytes);

/// Small integers, so that sums of up to 64 ranks are exact, different for every rank and nearly every place. Memory
/// that the call must write is poisoned. If the call works in place, or this rank sends (broadcast's root), the output
/// holds the input.
void fill(const Task& task, float* input, float* output);
/// Elements of the output that differ from the expected result of this rank.
std::uint64_t count_wrong(const Task& task, const float* output);

}  // namespace tutti::cli::measure
