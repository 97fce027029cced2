#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/net/socket.h"
#include "transport/tcp/striping.h"
#include "transport/transport.h"

namespace tutti::transport::tcp {

/// The messages of a link that its connections have not taken yet, in order. Each connection goes on at its own pace.
class FrameQueue {
 public:
  struct Message {
    FrameBytes header;
    std::span<const std::byte> payload;
    Token token;
    std::uint64_t begin = 0;  ///< position of the header among all bytes of the link

    std::uint64_t end() const { return begin + frame_size + payload.size(); }
  };

  /// The link has that many connections, on which nothing has been sent.
  void deal_to(std::size_t connections) noexcept;

  bool empty() const noexcept { return next_ == messages_.size(); }
  void add(const Message& message);
  void clear() noexcept;
  /// Whether a connection has something to take.
  bool has_for(std::size_t connection) const noexcept { return next_of_[connection] < end_; }
  /// Sends as much of `message` as the sockets take now, and adds it if that is not all. The queue must be empty.
  net::Moved write_first(std::span<const net::Socket> sockets, Message& message) noexcept;
  /// Sends as much as the socket of `connection` takes. The caller must call settle() afterwards.
  net::Moved write(const net::Socket& socket, std::size_t connection) noexcept;
  /// Calls `sent` with the token of each message that has gone completely. `sent` may add messages.
  template <class Sent>
  void settle(Sent&& sent) noexcept {
    for (const std::uint64_t gone = gone_up_to(); !empty() && messages_[next_].end() <= gone;) {
      const Token token = messages_[next_].token;
      ++next_;
      sent(token);
    }
    drop_sent();
  }

 private:
  std::uint64_t gone_up_to() const noexcept;
  void drop_sent() noexcept;
  void note_sent(std::size_t connection, std::uint64_t bytes) noexcept {
    next_of_[connection] = striping_.behind(next_of_[connection], bytes);
  }

  Striping striping_;
  std::uint64_t end_ = 0;                              ///< position behind the last message
  std::array<std::uint64_t, Stripe::most> next_of_{};  ///< position of the next byte that each connection takes
  std::vector<Message> messages_;                      ///< those before next_ have been sent
  std::size_t next_ = 0;
};

}  // namespace tutti::transport::tcp
