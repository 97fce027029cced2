#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/types.h"

namespace tutti::detail {

/// In the order of the words of TUTTI_GPU_MODE.
enum class GpuMode : std::uint8_t { automatic, staged, streams, leader, one_shot, two_shot, kernel };
const char* name_of(GpuMode mode);
/// The wish of all ranks, from that of each. Throws Error{mismatch} where two name ways that exclude each other.
GpuMode agreed_mode(const std::vector<GpuMode>& all);
/// Whether ranks have to use each other's memory.
constexpr bool shares_memory(GpuMode mode) { return mode >= GpuMode::leader; }

/// A kernel has no more inputs and outputs.
inline constexpr int most_sharing = 16;

/// How the ranks of a communicator use each other's memory in collectives, as all of them have agreed.
struct Runners {
  std::vector<int> by_rank{};  ///< the rank that does its tasks; empty: ranks do not use each other's memory
  bool alone = false;          ///< ranks share GPUs, and all calls without tasks are staged by the host
  GpuMode mode = GpuMode::streams;

  /// What the tuning table calls this.
  std::string_view transport() const;
  /// What TUTTI_GPU_MODE names for calls that name no algorithm. Empty: the tuning table decides.
  std::string_view algorithm(Collective collective) const;
  /// Whether the kernels of a call signal and wait themselves.
  bool meet_in_kernels() const;
  /// Whether a call is worth copies by each rank, since its buffers are in no windows.
  bool copies(std::size_t bytes) const;
};

/// `gpus`: by rank, the first rank on its GPU.
Runners runners_for(GpuMode mode, const std::vector<int>& gpus);
/// For the log, behind what is said of links.
std::string to_string(const Runners& runners);

}  // namespace tutti::detail
