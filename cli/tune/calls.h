#pragma once

#include <cstddef>
#include <memory>

#include "cli/measure/workload.h"
#include "cli/tune/workers.h"
#include "tutti/communicator.h"

namespace tutti::cli::tune {

inline constexpr std::size_t page_of_parts = 4096;  ///< bytes: a size is rounded up to whole parts

/// The calls of one rank, and their buffers.
class Calls {
 public:
  virtual ~Calls() = default;
  /// The calls that follow are of this kind.
  virtual void take(const measure::Task& task) = 0;
  /// Makes one with this algorithm, and waits for its result.
  virtual void make(const char* algorithm) = 0;
};

std::unique_ptr<Calls> make_host_calls(Communicator& comm, const WorkerOptions& options);
/// All ranks call it at the same place. Throws Error{unsupported} if calls of `options.transport` are not possible.
std::unique_ptr<Calls> make_device_calls(Communicator& comm, const WorkerOptions& options);

}  // namespace tutti::cli::tune
