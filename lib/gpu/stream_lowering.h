#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "algorithms/stream_program.h"
#include "lib/base/gpu/commands.h"
#include "lib/compute/gpu/arguments.h"
#include "lib/compute/gpu/table.h"
#include "tutti/types.h"

namespace tutti::transport {
class StreamLinks;
}

namespace tutti::detail {

class DeviceKernels;

/// What the commands of a call compute.
struct DeviceArithmetic {
  const DeviceKernels* kernels = nullptr;  ///< null: the call only moves elements
  DataType type{};
  OpKind op{};
  std::size_t element_size = 1;
  std::size_t sum_size = 1;  ///< of what lies in slots and scratch
  double factor = 1;         ///< of contributions
  double divisor = 1;        ///< of the sum
  int multiprocessors = 1;

  std::size_t size_of_element_in(algorithms::StreamPlace::Area area) const;
  /// Whether there are kernels for this type and op.
  static bool serves(DataType type, OpKind op);
};

/// Where a call's memory lies.
struct DeviceAreas {
  cuda::Address input = 0;   ///< of block 0, also at a rank that holds only its own part
  cuda::Address output = 0;  ///< the same
  cuda::Address scratch = 0;
  /// Where the buffers of all ranks are, by rank; the same block 0. Empty: in no shared memory.
  std::vector<cuda::Address> peer_input{}, peer_output{};
};

/// An event that is recorded before a command of a call, or behind the last one.
struct StreamMark {
  std::size_t before = 0;  ///< in StreamCommands::all
  cuda::Event event = nullptr;
};

/// Puts the commands of a program (algorithms/stream_program.h) into a stream of a GPU: waits and signals become
/// operations on the words of links, everything else copies and kernels.
class StreamLowering {
 public:
  /// `is_captured`: the stream is, so that the commands count from 0 on each time.
  StreamLowering(const transport::StreamLinks& links, const DeviceAreas& areas, const DeviceArithmetic& arithmetic,
                 cuda::Commands& stream, bool is_captured = false)
      : links_(links), areas_(areas), arithmetic_(arithmetic), stream_(stream), is_captured_(is_captured) {}

  /// `marks`: in their order.
  void add(const algorithms::StreamCommands& commands, std::span<const StreamMark> marks = {}) const;

 private:
  void add(const algorithms::StreamCommands& commands, const algorithms::StreamCommand& command) const;
  cuda::Address address_of(const algorithms::StreamPlace& place) const;
  void copy(const algorithms::StreamPlace& to, const algorithms::StreamPlace& from, std::size_t elements) const;
  void compute(compute::gpu::Step step, const algorithms::StreamCommands& commands,
               const algorithms::StreamCommand& command, const compute::gpu::Meeting& meeting = {}) const;
  void add_kernel(const algorithms::StreamCommands& commands, algorithms::StreamCommands::Part part) const;

  const transport::StreamLinks& links_;
  const DeviceAreas areas_;
  const DeviceArithmetic arithmetic_;
  cuda::Commands& stream_;
  const bool is_captured_;
};

}  // namespace tutti::detail
