#pragma once

#include <cstddef>
#include <span>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/memory.h"

// The GPU of one rank of the comparison, for libraries that take addresses in its memory.

namespace tutti::cli::measure {

/// Its context is the thread's current one as long as this object lives.
class Device {
 public:
  /// Ranks use the GPUs of the machine in turn. Throws Error{unsupported} without one.
  explicit Device(int rank);

  cuda::Stream stream() const { return stream_.get(); }
  /// Copies to or from memory of the GPU, and waits for it.
  void copy(float* to, const float* from, std::size_t count) const;
  void wait() const { cuda::driver().cuStreamSynchronize(stream_.get()); }

 private:
  cuda::PrimaryContext context_;
  cuda::Current current_;
  cuda::OwnStream stream_;
};

/// Elements in memory of the current context's GPU.
class DeviceElements {
 public:
  explicit DeviceElements(std::size_t count) : memory_((count + 1) * sizeof(float)) {}
  float* data() const { return reinterpret_cast<float*>(memory_.address()); }

 private:
  cuda::DeviceMemory memory_;
};

/// GB/s of copies within the memory of the first GPU, bytes read and written, at their best.
double gpu_copy_rate();

}  // namespace tutti::cli::measure
