#pragma once

#include <cstdint>

#include "lib/engine/roster.h"
#include "lib/message/envelope.h"
#include "lib/message/message.h"

namespace tutti::detail {

class Group;

/// Every send, receive and probe that has started and not ended, each under the number by which frames name it.
class ActiveMessages {
 public:
  explicit ActiveMessages(Group& group) : group_(group) {}

  bool empty() const { return roster_.empty(); }
  const Message* oldest() const { return roster_.oldest(); }
  template <class Visit>
  void for_each(Visit&& visit) const {
    roster_.for_each(visit);
  }
  /// The message with this number; null: there is none.
  Message* find(std::uint64_t slot) const { return roster_.find(slot); }
  /// The message with this number, if it is of that kind and at that stage; else null.
  Message* find(std::uint64_t slot, Message::Kind kind, Message::Stage stage) const;

  void add(Message& message) { message.slot = roster_.add(message); }
  /// Notes in the status of a receive or probe which message it got.
  void assign(Message& receive, const Envelope& envelope) noexcept;
  void end(Message& message, const Error* error = nullptr) noexcept;
  /// Ends `receive`, which has all of the message, or fails because the message does not fit.
  void end_received(Message& receive, const Envelope& envelope) noexcept;
  /// Ends `message` with the group's failure, described from its point of view.
  void end_failed(Message& message, const Error& reason) noexcept;

 private:
  Group& group_;
  Roster<Message> roster_;
};

}  // namespace tutti::detail
