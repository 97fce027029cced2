#include "device.h"

#include <concepts>

namespace tutti_torch {
namespace {

template <class Stream>
concept has_handle = requires(const Stream& stream) {
  { stream.native_handle() } -> std::convertible_to<void*>;
};

template <class Stream>
void* handle(const Stream& stream) {
  if constexpr (has_handle<Stream>)
    return stream.native_handle();
  else
    TORCH_CHECK(false, "tutti: this PyTorch does not give away its streams; tensors of GPUs need 2.13 or later");
}

}  // namespace

void* handle_of(const c10::Stream& stream) { return handle(stream); }

void order(const c10::Stream& earlier, const c10::Stream& later) {
  c10::Event event{earlier.device_type()};
  event.record(earlier);
  event.block(later);
}

void used_on(const c10::Stream& stream, const at::Tensor& tensor) {
  c10::impl::VirtualGuardImpl{stream.device_type()}.recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

c10::Stream DeviceStreams::of(c10::Device device, const Lane& lane) {
  const std::lock_guard lock{mutex_};
  const auto key = std::tuple{device.index(), lane};
  if (const auto found = streams_.find(key); found != streams_.end()) return found->second;
  const c10::Stream made = c10::impl::VirtualGuardImpl{device.type()}.getStreamFromGlobalPool(device, true);
  return streams_.emplace(key, made).first->second;
}

void DeviceStreams::synchronize() {
  std::vector<c10::Stream> awaited;
  {
    const std::lock_guard lock{mutex_};
    for (const auto& [key, stream] : streams_) {
      if (std::get<Lane>(key).kind == Lane::Kind::collectives) awaited.push_back(stream);
      awaited.push_back(current_stream(stream.device()));
    }
  }
  for (const c10::Stream& stream : awaited) stream.synchronize();
}

}  // namespace tutti_torch
