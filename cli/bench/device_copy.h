#pragma once

#include <cstddef>
#include <span>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/memory.h"

namespace tutti::cli::bench {

/// A copy of host memory in the memory of a GPU, and the stream of the calls on it.
class DeviceCopy {
 public:
  /// It holds `bytes` bytes from `host` on, on the GPU of this rank of the host. Throws Error{unsupported} without one.
  DeviceCopy(const std::byte* host, std::size_t bytes, int local_rank);

  void* stream() const { return stream_.get(); }
  /// Where the copy of these bytes lies.
  std::byte* place_of(const std::byte* host) const;
  /// Copies from the host, or to it, and waits for that.
  void update(std::span<const std::byte> host) const { copy(place(host), cuda::address_of(host.data()), host.size()); }
  void fetch(std::span<std::byte> host) const { copy(cuda::address_of(host.data()), place(host), host.size()); }
  /// Enqueues a copy on the GPU.
  void move(std::span<const std::byte> to, std::span<const std::byte> from) const;

 private:
  cuda::Address place(std::span<const std::byte> host) const { return cuda::address_of(place_of(host.data())); }
  void copy(cuda::Address to, cuda::Address from, std::size_t bytes) const;

  const std::byte* host_;
  cuda::PrimaryContext context_;
  cuda::DeviceMemory memory_;
  cuda::OwnStream stream_;
};

}  // namespace tutti::cli::bench
