#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "lib/base/net/socket.h"
#include "transport/transport.h"

namespace tutti::transport::tcp {

/// The messages of a link that its connection has not taken yet, in order.
class FrameQueue {
 public:
  struct Message {
    FrameBytes header;
    std::span<const std::byte> payload;
    Token token;
    std::size_t done = 0;  ///< bytes of header and payload that are sent

    std::size_t rest() const { return frame_size + payload.size() - done; }
  };

  /// Sends as much of a message outside of any queue as the socket takes.
  static net::Moved write_one(const net::Socket& socket, Message& message) noexcept;

  bool empty() const noexcept { return next_ == messages_.size(); }
  void add(const Message& message) { messages_.push_back(message); }
  void clear() noexcept;
  /// Sends as much as the socket takes. The caller must call settle() with the result.
  net::Moved write(const net::Socket& socket) const noexcept;
  /// Notes that `bytes` bytes were sent: calls `sent` with the token of each message that has gone completely. `sent`
  /// may add messages.
  template <class Sent>
  void settle(std::size_t bytes, Sent&& sent) noexcept {
    while (bytes > 0) {
      Message& message = messages_[next_];
      const std::size_t taken = std::min(bytes, message.rest());
      message.done += taken;
      bytes -= taken;
      if (message.rest() > 0) break;
      const Token token = message.token;
      ++next_;
      sent(token);
    }
    drop_sent();
  }

 private:
  void drop_sent() noexcept;

  std::vector<Message> messages_;  // those before next_ have been sent
  std::size_t next_ = 0;
};

}  // namespace tutti::transport::tcp
