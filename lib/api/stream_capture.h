#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "lib/api/captured_call.h"
#include "lib/api/stream_calls.h"

namespace tutti::detail {

/// The calls on streams that are being captured into graphs: the graphs hold the commands of the same programs as other
/// calls, and run them when they are launched. Threading: as StreamCalls.
class StreamCapture {
 public:
  /// A part of `calls`.
  explicit StreamCapture(StreamCalls& calls) : calls_(calls) {}

  /// Puts a call into the graph into which its stream is being captured.
  Work add(Communicator& comm, const Request& request, const StreamCalls::Planned& planned, const DeviceStream& stream);
  /// Whether a graph that exists has a call with buffers in this window.
  bool use(std::uint32_t window);
  /// The group is about to say bye.
  void close() noexcept;

 private:
  void add(const Request& request, const StreamCalls::Planned& planned, const DeviceStream& stream);

  StreamCalls& calls_;
  // Behind the mutex of the calls.
  std::shared_ptr<Replays> replays_;  // null: no call was captured so far
  /// The calls of a capture, which own it.
  std::shared_ptr<CallOrder> captured_in(std::uint64_t capture);

  std::map<std::uint64_t, std::weak_ptr<CallOrder>> captures_;  // by their numbers
  std::uint32_t calls_made_ = 0;
};

}  // namespace tutti::detail
