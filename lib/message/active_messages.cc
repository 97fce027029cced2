#include "lib/message/active_messages.h"

#include "lib/group/context.h"
#include "lib/group/group.h"
#include "lib/message/message_errors.h"

namespace tutti::detail {

Message* ActiveMessages::find(std::uint64_t slot, Message::Kind kind, Message::Stage stage) const {
  Message* const message = find(slot);
  return message && message->kind == kind && message->stage == stage ? message : nullptr;
}

void ActiveMessages::assign(Message& receive, const Envelope& envelope) noexcept {
  receive.status = envelope.status(receive.type == envelope.type ? receive.unit : 1);
  receive.order = envelope.order;
  if (group_.context().recorder) [[unlikely]]
    receive.note_arrived();
}

void ActiveMessages::end(Message& message, const Error* error) noexcept {
  message.note_end(error);
  roster_.remove(message.slot);
  if (message.is_inline()) return message.finish(error);
  group_.context().engine->finished(message, error);
}

void ActiveMessages::end_received(Message& receive, const Envelope& envelope) noexcept {
  assign(receive, envelope);
  if (envelope.fits(receive)) return end(receive);
  const Error error = does_not_fit(group_, receive, envelope);
  end(receive, &error);
}

void ActiveMessages::end_failed(Message& message, const Error& reason) noexcept {
  const Error error = failure_of(group_, message, reason);
  end(message, &error);
}

}  // namespace tutti::detail
