#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/message/eager_credit.h"
#include "lib/message/message.h"
#include "transport/transport.h"

namespace tutti::detail {

class Group;

/// The frame that begins a message, or a part of it: `length` bytes of payload.
inline transport::Frame message_frame(transport::FrameKind kind, const MessageCall& call, std::uint32_t slot,
                                      std::size_t length) {
  return {.kind = kind,
          .data_type = static_cast<std::uint8_t>(call.type),
          .operation = slot,
          .root = call.tag,
          .count = call.count,
          .length = length};
}

/// The links between this rank and each of its peers on one channel, with the credit that goes over them.
class MessageLinks {
 public:
  struct Peer {
    transport::Link* out = nullptr;
    transport::Link* in = nullptr;     ///< brings messages
    transport::Link* aside = nullptr;  ///< takes credit
    std::uint64_t messages_sent = 0;
    std::uint64_t messages_come = 0;
    EagerCredit credit;
    std::optional<Error> lost;  ///< nothing can be sent there any more
  };
  /// Of a frame that no message waits for.
  static constexpr transport::Token no_token = ~transport::Token{0};

  MessageLinks(Group& group, transport::Channel channel);

  Peer& operator[](int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& operator[](int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

  /// Opens `out` if need be. False: nothing can be sent to the peer any more, and the group fails.
  bool reach(int peer) noexcept;
  /// `peer.out` is there.
  bool may_send_eagerly(const Peer& peer, std::size_t length) const noexcept;
  /// True: all of it has been sent; else the link reports `token` later, or the group fails.
  bool send(int peer, transport::Frame frame, std::span<const std::byte> payload, transport::Token token) noexcept;
  /// Something is expected from `peer`, or from any rank for any_source.
  void expect_from(int peer) noexcept;
  /// An eager message has left the memory of this rank: returns the credit for it, now or together with later ones.
  void consumed(int source, std::size_t bytes) noexcept;
  /// Forgets all links.
  void clear() { peers_.assign(peers_.size(), {}); }

 private:
  Group& group_;
  transport::Channel channel_;
  std::vector<Peer> peers_;
};

}  // namespace tutti::detail
