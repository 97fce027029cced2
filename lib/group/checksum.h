#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/error.h"

namespace tutti::detail {

class Group;

// What a frame says about its payload (TUTTI_CHECKSUM=1; docs/wire.md). A frame's 0 means "nothing is said", so a
// payload whose CRC is 0 counts as one of ~0.

/// The checksum of a whole payload.
std::uint32_t checksum_of(std::span<const std::byte> payload);

/// What has arrived so far of a message that may carry a checksum.
class Arriving {
 public:
  /// A message begins; `promised`: its frame's.
  void begin(std::uint32_t promised) {
    promised_ = promised;
    crc_ = 0;
  }
  void add(std::span<const std::byte> piece);
  /// All of it is here, and not as it was sent.
  bool broken() const;
  /// In words; `source` and `bytes` are the message's, `operation` its number or 1.
  Error complaint(const Group& group, int source, std::size_t bytes, std::uint64_t operation) const;

 private:
  std::uint32_t promised_ = 0;
  std::uint32_t crc_ = 0;
};

}  // namespace tutti::detail
