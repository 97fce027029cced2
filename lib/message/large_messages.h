#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/message/active_messages.h"
#include "lib/message/envelope.h"
#include "lib/message/message_links.h"
#include "transport/frame.h"

namespace tutti::detail {

/// The rendezvous protocol: a sender asks, its receiver grants once it knows where the message belongs, and the payload
/// is read straight into that place.
///
///   sender --request, with the head--> receiver      the message may wait there for its receive
///   sender <----------grant----------- receiver
///   sender ----bulk, the rest--------> receiver
///
/// The head travels eagerly, if the credit allows it, while the receiver answers. A message that its link may lend has
/// none: the receiver reads it in the sender's memory, all of it or nothing.
class LargeMessages {
 public:
  static constexpr std::size_t longest_head = 32 * 1024;

  LargeMessages(MessageLinks& links, ActiveMessages& active) : links_(links), active_(active) {}

  /// Asks the peer of `send`, to which a link is open.
  void request(Message& send) noexcept;
  /// Answers a request for `receive`: the sender calls it `number`, and `head` bytes came along.
  void grant(Message& receive, const Envelope& envelope, std::uint32_t number, std::size_t head) noexcept;
  /// A grant has come: sends the rest. False: nobody has asked for it.
  bool granted(int source, const transport::Frame& grant) noexcept;
  /// The receive to which this payload was granted. Null: there is none.
  Message* receive_of(int source, const transport::Frame& bulk) const noexcept;

 private:
  void answer(int sender, std::uint32_t number, std::uint64_t count) noexcept;

  MessageLinks& links_;
  ActiveMessages& active_;
};

}  // namespace tutti::detail
