#pragma once

#include <cstddef>
#include <utility>

#include "lib/base/gpu/context.h"
#include "tests/gpu/program_calls.h"

namespace tutti::testing {

/// Pinned memory of the host: `size` bytes, of a page's alignment, which all devices can use. A context is current when
/// it is made.
class HostMemory {
 public:
  HostMemory() = default;
  explicit HostMemory(std::size_t size) : size_(size) {
    cuda::Context current = nullptr;
    cuda::driver().cuCtxGetCurrent(&current);
    context_ = cuda::KnownContext{current};
    const cuda::KnowsOfCapture knows;
    void* data = nullptr;
    cuda::driver().cuMemHostAlloc(&data, size, cuda::host_portable | cuda::host_mapped);
    data_ = static_cast<std::byte*>(data);
    cuda::driver().cuMemHostGetDevicePointer(&address_, data, 0);
  }
  HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~HostMemory() {
    if (data_ == nullptr || !context_.exists()) return;
    const cuda::Current current{context_.get()};
    const cuda::KnowsOfCapture knows;
    (void)program_calls().cuMemFreeHost(data_);
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// Where devices see it.
  cuda::Address address() const { return address_; }

 private:
  cuda::KnownContext context_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  cuda::Address address_ = 0;
};

}  // namespace tutti::testing
