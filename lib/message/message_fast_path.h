#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "lib/engine/short_wait.h"
#include "lib/message/active_messages.h"
#include "lib/message/message.h"
#include "lib/message/message_links.h"
#include "lib/message/waiting_messages.h"
#include "lib/observe/black_box.h"

namespace tutti::detail {

class Group;
class Messages;

/// Inline sends and receives, for callers that wait: if the peer is quick they need no engine, read no clock, and look
/// at the peer's link only. Any thread.
class MessageFastPath {
 public:
  MessageFastPath(Messages& messages, MessageLinks& links, WaitingMessages& waiting, ActiveMessages& active);

  /// True: the link has taken the whole message. False: nothing has happened.
  bool send(const MessageCall& call) noexcept;
  /// Returns nothing if nothing has happened. Throws what the receive fails with.
  std::optional<MessageStatus> receive(const MessageCall& call, const std::shared_ptr<Pool<Message>>& pool);

 private:
  // ---- Owner of the engine
  bool may_try(int peer) const noexcept;
  bool may_receive(int peer, Pool<Message>& pool) noexcept;
  bool send_owned(const MessageCall& call) noexcept;
  transport::Link::Taken take_expected(const MessageCall& call, ShortWait& wait) noexcept;
  void wait_a_little(const Message& receive, ShortWait& wait) noexcept;
  void trace_send(const MessageCall& call, std::int64_t begun, std::uint64_t order) noexcept;
  black_box::Flight note_begin(const MessageCall& call, std::int64_t now) noexcept;

  Messages& messages_;
  Group& group_;
  MessageLinks& links_;
  WaitingMessages& waiting_;
  ActiveMessages& active_;
  std::unique_ptr<Message> spare_;  // reused for receives that the engine never sees
};

}  // namespace tutti::detail
