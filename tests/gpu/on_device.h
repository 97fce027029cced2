#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/memory.h"
#include "tutti/gpu.h"

namespace tutti::testing {

/// Lets this thread use another GPU than the rest of the program; null: no more.
inline cuda::Context& context_of_thread() {
  static thread_local cuda::Context context = nullptr;
  return context;
}

/// Ranks that are processes use the GPUs in turn.
inline cuda::Device own_device() {
  const char* const rank = std::getenv("TUTTI_RANK");
  int count = 1;
  cuda::driver().cuDeviceGetCount(&count);
  return rank ? std::atoi(rank) % count : 0;
}

/// The GPU of these tests, for the whole program.
inline cuda::Context context() {
  if (context_of_thread() != nullptr) return context_of_thread();
  static const auto& primary = *new cuda::PrimaryContext{own_device()};
  return primary.get();
}

/// A vector in device memory.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::vector<T> content) : size_(content.size()) {
    const cuda::Current current{context()};
    memory_ = cuda::DeviceMemory{std::max<std::size_t>(1, size_ * sizeof(T))};
    write(content);
  }
  gpu::Span<T> span() const { return {reinterpret_cast<T*>(memory_.address()), size_}; }
  gpu::Span<T> part(std::size_t begin, std::size_t count) const {
    return {reinterpret_cast<T*>(memory_.address()) + begin, count};
  }
  void write(const std::vector<T>& content) {
    copy(memory_.address(), cuda::address_of(content.data()), content.size() * sizeof(T));
  }
  std::vector<T> read() const {
    std::vector<T> content(size_);
    copy(cuda::address_of(content.data()), memory_.address(), size_ * sizeof(T));
    return content;
  }

 private:
  static void copy(cuda::Address to, cuda::Address from, std::size_t bytes) {
    const cuda::OwnStream stream{context()};
    cuda::Commands commands{context(), stream.get()};
    commands.copy(to, from, bytes);
    cuda::driver().cuStreamSynchronize(stream.get());
  }
  std::size_t size_;
  cuda::DeviceMemory memory_;
};

}  // namespace tutti::testing
