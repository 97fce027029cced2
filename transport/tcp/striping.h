#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lib/security/handshake.h"

namespace tutti::transport::tcp {

/// How the bytes of one direction of a link are dealt to its connections: the first strip to the first connection, the
/// next strip to the next one, and round again. One connection carries everything as one strip. Nothing else tells the
/// receiver where a byte belongs.
class Striping {
 public:
  /// Long enough that a strip costs few system calls, short enough that the buffers of each connection hold several.
  static constexpr std::uint64_t strip = std::uint64_t{64} * 1024;

  explicit Striping(std::size_t connections = 1) : connections_(connections) {}

  std::size_t connections() const { return connections_; }
  /// The connection that carries the byte at `position`.
  std::size_t connection_at(std::uint64_t position) const {
    return connections_ == 1 ? 0 : static_cast<std::size_t>(position / strip % connections_);
  }
  /// The number of bytes from `position` to the end of its strip.
  std::uint64_t left_at(std::uint64_t position) const {
    return connections_ == 1 ? ~std::uint64_t{0} : strip - position % strip;
  }
  /// The position behind `bytes` bytes of one strip, on the same connection.
  std::uint64_t behind(std::uint64_t position, std::uint64_t bytes) const {
    const bool is_whole = bytes == left_at(position);
    return position + bytes + (is_whole ? (connections_ - 1) * strip : 0);
  }
  /// The first position that `connection` carries.
  static std::uint64_t first_of(std::size_t connection) { return connection * strip; }

 private:
  std::size_t connections_;
};

}  // namespace tutti::transport::tcp
