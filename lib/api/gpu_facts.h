#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/api/runners.h"
#include "lib/base/gpu/driver_types.h"

namespace tutti::detail {

class DeviceStream;

/// What a rank tells the others about its GPU, before they agree in how calls on device memory run.
struct GpuFacts {
  cuda::Uuid uuid{};
  GpuMode mode{};
  bool has_kernels = false;  ///< that combine
  bool shares_by_descriptors = false;
  bool names_gpu = true;
  std::int32_t host = 0;  ///< the first rank that shares memory with this one
  std::uint64_t slot_bytes = 0;
  char why_not[160] = {};  ///< empty: this rank's GPU can use links
};

/// TUTTI_GPU_MODE of this rank.
GpuMode wanted_mode();
/// Those of this rank. `host`: as above.
GpuFacts facts_of_own(const DeviceStream& stream, int host);

/// What all ranks know of the GPUs of all ranks. Threading: immutable.
class GpusOfRanks {
 public:
  explicit GpusOfRanks(std::vector<GpuFacts> by_rank) : all_(std::move(by_rank)) {}

  /// Every rank knows which GPU is its own, or nobody has to.
  bool can_decide() const;
  /// The wish of all ranks. Throws Error{mismatch} where two exclude each other.
  GpuMode mode() const;
  /// Why calls are staged by the host; empty: they need not be.
  std::string why_staged() const;
  bool are_on_one_host() const;
  bool have_kernels() const;
  bool share_by_descriptors() const;
  std::uint64_t slot_bytes() const { return all_.front().slot_bytes; }
  /// By rank, the first rank on its GPU.
  std::vector<int> first_on_gpu() const;
  std::vector<int> ranks_of_host(int host) const;
  /// tutti::ranks_on_each_host() of ranks that share memory.
  int ranks_on_each_host() const;

 private:
  /// Two ranks with one GPU, the later first; -1 if there are none.
  std::pair<int, int> two_on_a_gpu() const;
  const GpuFacts& of(int rank) const { return all_[static_cast<std::size_t>(rank)]; }
  int ranks() const { return static_cast<int>(all_.size()); }

  std::vector<GpuFacts> all_;
};

}  // namespace tutti::detail
