#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>

#include "lib/api/communicator_state.h"
#include "lib/gpu/device_stream.h"
#include "lib/gpu/staging.h"
#include "lib/message/message.h"

namespace tutti::detail {

/// A call on device memory as a call on pinned memory of the host: the copies that its caller waits for. What goes
/// wrong on the device ends the communicator on all ranks, since the others wait for this one.
class DeviceCopies {
 public:
  /// `request` is a checked collective.
  DeviceCopies(const Request& request, Group& group, const DeviceStream& stream);
  /// `call` is a checked message, which will use pinned memory from here on. One without elements, too, has its place
  /// in the stream.
  DeviceCopies(MessageCall& call, Group& group, OnStream on);

  /// The collective on pinned memory.
  const Request& request() const { return staging_->request(); }
  void fetch_input() const;
  void deliver_output() const;
  /// The first `bytes` bytes, which are a message.
  void deliver_output(std::size_t bytes) const;

  // ---- For calls that do not wait
  /// Whether the stream may wait for this process to act. Not for ranks that are threads: one of them might free memory
  /// in the meantime, which waits for the streams of the others, and keeps all of them from the driver.
  bool may_wait_on_device() const;
  const std::shared_ptr<const Staging>& staging() const { return staging_; }
  const DeviceStream& stream() const { return stream_; }
  /// Runs `work`, which calls the driver.
  template <class Work>
  void on_device(const Work& work) const;

 private:
  /// What `part` returns; its error ends the communicator.
  template <class Part>
  auto or_abort(const Part& part) const;

  Group& group_;
  const std::string name_;  // for errors: "all_reduce on rank 1 of 4"
  DeviceStream stream_;
  std::shared_ptr<const Staging> staging_;
};

/// For a call that this rank cannot make, while others wait for its part: ends the communicator on all ranks, and
/// throws the error with the name of the call. An exception that is no Error comes from the host, which has no memory.
[[noreturn]] void abort_for_all(Group& group, const std::string& call, const std::exception& error);

/// Whether a buffer that this rank uses has elements: else there is nothing on a device, and the call is one of the
/// host.
bool uses_memory(const Request& request, int rank);

/// Throws if call_on_device() would refuse the buffers or the stream of a checked collective.
void check_on_device(const Request& request, const Group& group, OnStream on);

/// Makes a checked collective on device memory: on the streams of the GPUs where the ranks have links between them,
/// else as a call on pinned memory. `asynchronous`: returns once it is in its stream, if that may wait for this
/// process.
Work call_on_device(Communicator& comm, const std::shared_ptr<CommunicatorState>& state, const Request& request,
                    OnStream on, bool asynchronous);

/// Starts a checked message, and returns once it is in its stream. The helper thread must run.
Work start_on_device(CommunicatorState& state, const DeviceCopies& copies, const MessageCall& call);

}  // namespace tutti::detail
