#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

/// Tensors of GPUs, by what PyTorch knows of any device: the extension is the same with and without CUDA.
namespace tutti_torch {

inline c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl{device.type()}.getStream(device);
}

/// The CUstream.
void* handle_of(const c10::Stream& stream);

/// The place that the stream has come to when it has done what is in it now.
c10::Event place_in(const c10::Stream& stream);
/// Whether the device is there. An event that fails counts, since nothing comes after it.
bool passed(const c10::Event& event) noexcept;

/// Whether a graph is made of what the stream is given now. Events of a capture must not be asked for.
bool is_captured(const c10::Stream& stream);

/// Memory of the tensor is not to be used anew before the stream has done what is in it when the tensor goes.
void used_on(const c10::Stream& stream, const at::Tensor& tensor);

/// The calls of a backend that share a stream: collectives, messages with one tag to one rank, or the copies of
/// messages that have arrived. A call holds back those alone that have to come after it.
struct Lane {
  enum class Kind { collectives, sends, arrivals };
  Kind kind = Kind::collectives;
  int peer = -1;
  int tag = 0;
  auto operator<=>(const Lane&) const = default;
};

/// The stream of a lane, from PyTorch's pool, which gets it back at the end.
class LaneStream {
 public:
  LaneStream(c10::Device device, Lane::Kind kind);
  LaneStream(const LaneStream&) = delete;
  LaneStream& operator=(const LaneStream&) = delete;
  ~LaneStream();

  const c10::Stream& stream() const { return stream_; }

 private:
  const Lane::Kind kind_;
  const c10::Stream stream_;
};

/// The streams on which calls run that their callers do not wait for. No two lanes of a process share one while the
/// pool has others. A lane of sends may have another one later, once none of its calls holds the stream. Thread-safe.
class DeviceStreams {
 public:
  DeviceStreams() = default;
  DeviceStreams(const DeviceStreams&) = delete;
  DeviceStreams& operator=(const DeviceStreams&) = delete;

  std::shared_ptr<const LaneStream> of(c10::Device device, const Lane& lane);
  /// The backend has a call on that device.
  void use(c10::Device device);
  /// Waits for the collectives that have been started, and for the caller's current streams, on all devices that were
  /// used and on those with the numbers `more`.
  void synchronize(const std::vector<std::int64_t>& more);

 private:
  std::mutex mutex_;
  std::set<c10::DeviceIndex> devices_;
  std::map<std::tuple<c10::DeviceIndex, Lane>, std::shared_ptr<const LaneStream>> streams_;
};

}  // namespace tutti_torch
