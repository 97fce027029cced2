#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "lib/message/active_messages.h"
#include "lib/message/envelope.h"
#include "lib/message/message_links.h"
#include "transport/frame.h"

namespace tutti::detail {

/// The rendezvous protocol: the sender asks, the receiver grants once it knows where the message belongs, and the
/// payload is read straight into that place.
///
///   sender --request, with the head--> receiver      the message may wait there for its receive
///   sender <----------grant----------- receiver
///   sender ----bulk, the rest--------> receiver
///
/// While the receiver answers, the head of the message travels eagerly, if the credit allows it. A message that may be
/// a single copy has no head: the receiver reads it from the sender's memory, as a whole or not at all.
class LargeMessages {
 public:
  static constexpr std::size_t longest_head = 32 * 1024;

  LargeMessages(MessageLinks& links, ActiveMessages& active) : links_(links), active_(active) {}

  /// Sends the request for `send` on the open link to its peer.
  void request(Message& send) noexcept;
  /// Answers a request for `receive`. The sender has it in `sender_slot`, and `head` bytes came with it.
  void grant(Message& receive, const Envelope& envelope, std::uint32_t sender_slot, std::size_t head) noexcept;
  /// Answers a request for a message that is kept until there is a receive.
  void grant_early(int source, std::uint32_t sender_slot) noexcept;
  /// Handles a grant: sends the rest. False: no send has asked for it.
  bool granted(int source, const transport::Frame& grant) noexcept;
  /// The receive for which exactly this payload was granted; null: there is none.
  Message* receive_of(int source, const transport::Frame& bulk) const noexcept;
  /// The number of the send to which grant_early() answered with this payload.
  static std::optional<std::uint32_t> granted_early(const transport::Frame& bulk) noexcept;

 private:
  MessageLinks& links_;
  ActiveMessages& active_;
};

}  // namespace tutti::detail
