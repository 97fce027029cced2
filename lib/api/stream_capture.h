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
  /// A capture that has calls. They own it.
  struct Captured {
    std::map<cuda::Context, cuda::OwnEvent> events{};  // by the context of their streams
    std::uint64_t stream = 0;                          // of the latest call, by cuda::id_of()
    cuda::Event passed = nullptr;                      // behind it; null: it is not complete
  };
  std::shared_ptr<Captured> captured_in(std::uint64_t capture);

  std::map<std::uint64_t, std::weak_ptr<Captured>> captures_;  // by their numbers
  std::uint32_t calls_made_ = 0;
};

}  // namespace tutti::detail
