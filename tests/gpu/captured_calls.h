#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/gpu/device_ranks.h"
#include "tests/gpu/graphs.h"
#include "tests/gpu/on_device.h"
#include "tests/gpu/windows.h"
#include "tests/support/scratch.h"

// For tests of calls that are captured into graphs.

namespace tutti::testing::captures {

inline constexpr int capturing_ranks = 3;
inline constexpr std::size_t captured_count = 3001;

inline void synchronize(const cuda::OwnStream& stream) { cuda::driver().cuStreamSynchronize(stream.get()); }

/// Ranks that are threads make calls of the driver while another one captures.
template <class Body>
CapturedGraph captured(const cuda::OwnStream& stream, const Body& body) {
  return {stream.get(), is_thread() ? cuda::CaptureMode::of_thread : cuda::CaptureMode::global, body};
}

/// The sum of all ranks' data_of(rank + shift, n).
inline std::vector<float> sum_of(Communicator& comm, int shift, std::size_t n, const char* algorithm) {
  std::vector<float> sum = data_of(comm.rank() + shift, n);
  comm.all_reduce(sum, tutti::sum, {.algorithm = algorithm});
  return sum;
}

struct Way {
  const char* mode;
  const char* algorithm;
};
inline constexpr Way ways[] = {{"streams", "ring"},
                               {"streams", "double_binary_tree"},
                               {"leader", "direct"},
                               {"one-shot", "direct"},
                               {"two-shot", "direct_two_shot"}};

/// In each way, with slots for long vectors in many rounds and for short ones in one.
inline void in_each_way(const std::function<void(Communicator&, const char* algorithm)>& body) {
  for (const Way& way : ways) {
    const Setting mode{"TUTTI_GPU_MODE", way.mode}, slot{"TUTTI_GPU_SLOT_BYTES", "4096"};
    on_ranks(capturing_ranks, [&](Communicator& world) {
      const Current current;
      INFO(std::string{way.mode}, " ", std::string{way.algorithm}, " on rank ", world.rank());
      Communicator comm = world.split(0);  // with links of its own
      const OnDevice<float> first{std::vector<float>(8, 1)};
      comm.all_reduce(first.span(), tutti::sum, {.algorithm = way.algorithm});  // agrees how calls run
      body(comm, way.algorithm);
      world.barrier();
    });
  }
}

}  // namespace tutti::testing::captures
