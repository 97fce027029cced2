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

/// A frame of a message, which is followed by `length` bytes of payload.
constexpr transport::Frame message_frame(transport::FrameKind kind, const MessageCall& call, std::size_t length) {
  return {.kind = kind,
          .data_type = static_cast<std::uint8_t>(call.type),
          .length = length,
          .tag = call.tag,
          .elements = call.count};
}

/// The links between this rank and its peers on one channel, and the credit for them.
class MessageLinks {
 public:
  struct Peer {
    transport::Link* out = nullptr;
    transport::Link* in = nullptr;         ///< messages from the peer
    transport::Link* aside = nullptr;      ///< credit for the peer
    transport::Link* credit_in = nullptr;  ///< credit from the peer, once some has come
    std::uint64_t messages_sent = 0;
    std::uint64_t messages_come = 0;
    EagerCredit credit;
    std::optional<Error> lost;           ///< why nothing can be sent there any more
    std::optional<Error> credit_failed;  ///< what `aside` failed with: the peer has probably left
  };
  /// The token of frames for which no message waits.
  static constexpr transport::Token no_token = ~transport::Token{0};

  MessageLinks(Group& group, transport::Channel channel);

  Peer& operator[](int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& operator[](int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

  /// Opens `out` if it is not open. False: nothing can be sent to the peer any more, and the group fails.
  bool reach(int peer) noexcept;
  /// Whether a message of that length goes eagerly. `peer.out` must be open.
  bool may_send_eagerly(const Peer& peer, std::size_t length) const noexcept;
  /// Counts an eager message of that length that a caller has given to the link itself.
  void sent_eagerly(int peer, std::size_t length) noexcept {
    ++(*this)[peer].messages_sent;
    (*this)[peer].credit.spend(length);
  }
  /// True: all of it has been sent. False: the link reports `token` later, or the group fails.
  bool send(int peer, transport::Frame frame, std::span<const std::byte> payload, transport::Token token) noexcept;
  /// A message is expected from `peer`, or with any_source from any rank.
  void expect_from(int peer) noexcept;
  /// An eager message has left this rank's memory: returns the credit for it, now or together with later credit.
  void consumed(int source, std::size_t bytes) noexcept;
  /// Forgets all links.
  void clear() { peers_.assign(peers_.size(), {}); }

 private:
  Group& group_;
  transport::Channel channel_;
  std::vector<Peer> peers_;
};

}  // namespace tutti::detail
