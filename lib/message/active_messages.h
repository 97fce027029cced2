#pragma once

#include <cstdint>

#include "lib/engine/roster.h"
#include "lib/message/envelope.h"
#include "lib/message/message.h"

namespace tutti::detail {

class Group;

/// Every send, receive and probe that has started and not ended, under the number by which frames name it.
class ActiveMessages {
 public:
  explicit ActiveMessages(Group& group) : group_(group) {}

  bool empty() const { return roster_.empty(); }
  const Message* oldest() const { return roster_.oldest(); }
  template <class Visit>
  void for_each(Visit&& visit) const {
    roster_.for_each(visit);
  }
  /// Null: nothing has this number.
  Message* find(std::uint64_t slot) const { return roster_.find(slot); }
  /// Null: nothing with this number is of that kind and at that stage.
  Message* find(std::uint64_t slot, Message::Kind kind, Message::Stage stage) const;

  void add(Message& message) { message.slot = roster_.add(message); }
  /// From now on `receive`, or a probe, says that it got this message.
  void assign(Message& receive, const Envelope& envelope) noexcept;
  void end(Message& message, const Error* error = nullptr) noexcept;
  /// `receive` ends: it has all of this message, or an error if the message does not fit.
  void end_received(Message& receive, const Envelope& envelope) noexcept;
  /// Ends with the group's failure, put into this message's words.
  void end_failed(Message& message, const Error& reason) noexcept;

 private:
  Group& group_;
  Roster<Message> roster_;
};

}  // namespace tutti::detail
