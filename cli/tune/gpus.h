#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// What `tutti tune --on gpu` measures on. The tuning table has a kind for each way in which ranks have GPUs.

namespace tutti::cli::tune {

inline constexpr std::string_view leader_kind = "cuda_leader";  ///< ranks share GPUs
inline constexpr std::string_view peers_kind = "cuda_peers";    ///< each rank has a GPU of its own
inline constexpr std::string_view links_kind = "cuda_ipc";      ///< links alone: TUTTI_GPU_MODE=streams
inline constexpr std::string_view gpu_kinds[] = {leader_kind, peers_kind, links_kind};

struct Gpus {
  int count = 0;
  std::string text{};  ///< which, and their driver: gpus_text()
};

/// Asks the driver, in a process of its own: ranks that are forked later could not use one that this process had
/// started. Throws Error{unsupported} where calls on GPUs cannot be measured, with the remedy.
Gpus look_at_gpus();

/// The kinds to be measured with `ranks` ranks: those of `wanted`, or without any that which calls of such ranks have.
/// Throws Error{invalid_argument} for a kind that these ranks cannot have here.
std::vector<std::string> kinds_of(std::span<const std::string> wanted, int ranks, const Gpus& gpus);

/// The GPU of a rank of `ranks`.
int gpu_of_rank(std::string_view kind, int rank, int ranks, int gpus);

}  // namespace tutti::cli::tune
