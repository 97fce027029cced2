#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/error.h"

namespace tutti::detail {

class Group;

// What a frame says about its payload (TUTTI_CHECKSUM=1; docs/wire.md). In a frame 0 means that there is no checksum,
// so a payload whose CRC is 0 has the checksum ~0.

/// The checksum of a whole payload.
std::uint32_t checksum_of(std::span<const std::byte> payload);

/// Checks a message that may carry a checksum, while it arrives.
class Arriving {
 public:
  /// A message begins. `promised`: the checksum in its frame.
  void begin(std::uint32_t promised) {
    promised_ = promised;
    crc_ = 0;
  }
  void add(std::span<const std::byte> piece);
  /// Whether the message, which is complete, differs from what was sent.
  bool broken() const;
  /// The error for a broken message of `bytes` bytes from `source`. `operation`: its number, or 1.
  Error complaint(const Group& group, int source, std::size_t bytes, std::uint64_t operation) const;

 private:
  std::uint32_t promised_ = 0;
  std::uint32_t crc_ = 0;
};

}  // namespace tutti::detail
