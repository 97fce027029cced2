#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

/// Tensors of GPUs, by what PyTorch knows of any device: the extension is the same with and without CUDA.
namespace tutti_torch {

/// What the caller's work on the device is in order of.
inline c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl{device.type()}.getStream(device);
}

/// The CUstream.
void* handle_of(const c10::Stream& stream);

/// From now on `later` does what follows after all that is in `earlier` now.
void order(const c10::Stream& earlier, const c10::Stream& later);

/// Memory of the tensor is not to be used anew before the stream has done what is in it when the tensor goes.
void used_on(const c10::Stream& stream, const at::Tensor& tensor);

/// The calls of a backend that share a stream: collectives, or the messages with one tag to one rank, or from one. So a
/// receive for which there is no message holds back those alone that have to come after it.
struct Lane {
  enum class Kind { collectives, sends, receives };
  Kind kind = Kind::collectives;
  int peer = -1;
  int tag = 0;
  auto operator<=>(const Lane&) const = default;
};

/// The streams, from PyTorch's pool, on which calls run that their callers do not wait for. Thread-safe.
class DeviceStreams {
 public:
  c10::Stream of(c10::Device device, const Lane& lane);
  /// Waits until the collectives are done that have been started, and what the caller has in its current streams.
  void synchronize();

 private:
  std::mutex mutex_;
  std::map<std::tuple<c10::DeviceIndex, Lane>, c10::Stream> streams_;
};

}  // namespace tutti_torch
