#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/memory.h"

namespace tutti::detail {

/// A buffer of a call in device memory, and a copy of it in which its parts lie one after the other, though the
/// caller's may have gaps.
class DeviceParts {
 public:
  /// The call does not use the buffer on this rank.
  DeviceParts() = default;
  DeviceParts(const void* data, std::size_t bytes) : on_device_(cuda::address_of(data)), bytes_(bytes) {
    pieces_.push_back({0, 0, bytes});
  }
  /// `counts` in elements of the wire, `displacements` in those of the caller, of `caller_element` bytes.
  DeviceParts(const void* data, std::size_t wire_element, std::span<const std::size_t> counts,
              std::size_t caller_element, std::span<const std::size_t> displacements);

  /// Of the caller's buffer.
  cuda::Address address() const { return on_device_; }
  /// Of the copy.
  std::size_t bytes() const { return bytes_; }
  enum class CopyIn : std::uint8_t { pinned_memory, device_memory };
  void collect(cuda::Commands& commands, cuda::Address copy, CopyIn where) const;
  void spread(cuda::Commands& commands, cuda::Address copy, CopyIn where) const;

 private:
  struct Piece {
    std::size_t on_device = 0;  // in bytes, from the beginning of the caller's buffer
    std::size_t in_copy = 0;
    std::size_t bytes = 0;
  };
  cuda::Address on_device_ = 0;
  std::size_t bytes_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace tutti::detail
