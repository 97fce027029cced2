#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/net/socket.h"
#include "transport/frame.h"

namespace tutti::transport::tcp {

/// The frame with which a receiver ends a connection that carries messages one way only: a bye or an abort, sent
/// against the direction of the messages.
class LastFrame {
 public:
  /// 0: the frame is complete. Else why not: EAGAIN (not yet), end_of_stream or errno.
  int read(const net::Socket& socket) noexcept;
  /// The frame, once read() has returned 0; empty: the bytes are no bye and no abort.
  const std::optional<Frame>& frame() const { return frame_; }
  /// The text of an abort.
  std::span<const std::byte> reason() const { return std::span(bytes_).subspan(frame_size); }
  void clear() noexcept;

 private:
  bool is_complete() noexcept;

  std::vector<std::byte> bytes_;
  std::optional<Frame> frame_;
};

}  // namespace tutti::transport::tcp
