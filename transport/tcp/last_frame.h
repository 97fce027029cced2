#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/net/socket.h"
#include "transport/frame.h"

namespace tutti::transport::tcp {

/// The frame with which a peer ends a connection that has no reader: a bye or an abort, sent against the direction of
/// the messages.
class LastFrame {
 public:
  /// 0: what had to come is here. Else why not: EAGAIN (not yet), end_of_stream or errno.
  int read(const net::Socket& socket) noexcept;
  /// Once read() has returned 0. Empty: those bytes are no such frame.
  const std::optional<Frame>& frame() const { return frame_; }
  /// Of an abort.
  std::span<const std::byte> reason() const { return std::span(bytes_).subspan(frame_size); }
  void clear() noexcept;

 private:
  bool is_complete() noexcept;

  std::vector<std::byte> bytes_;
  std::optional<Frame> frame_;
};

}  // namespace tutti::transport::tcp
