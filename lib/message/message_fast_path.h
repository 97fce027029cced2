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
  /// A send and a receive, which are spared to give up the engine in between. `sent` and `received` tell how much has
  /// happened: nothing, the send, or both. Throws what the receive fails with.
  struct Exchange {
    bool sent = false;
    std::optional<MessageStatus> received;
  };
  Exchange exchange(const MessageCall& out, const MessageCall& in, const std::shared_ptr<Pool<Message>>& pool);

 private:
  // ---- Owner of the engine
  bool may_try(int peer) const noexcept;
  bool may_receive(int peer, Pool<Message>& pool) noexcept;
  bool may_send_eagerly(const MessageCall& call) noexcept;
  void look_for_credit(const MessageLinks::Peer& peer, std::size_t length) noexcept;
  bool send_owned(const MessageCall& call) noexcept;
  std::optional<MessageStatus> receive_owned(const MessageCall& call, const std::shared_ptr<Pool<Message>>& pool);
  MessageStatus receive_late(const MessageCall& call, const std::shared_ptr<Pool<Message>>& pool,
                             black_box::Flight flight, transport::Link::Taken taken, ShortWait& wait);
  Message& begin_receive(const MessageCall& call, const std::shared_ptr<Pool<Message>>& pool, black_box::Flight flight,
                         transport::Link::Taken taken) noexcept;
  bool lend_owned(const MessageCall& out, const MessageCall& in, Pool<Message>& pool) noexcept;
  MessageStatus exchange_lent(const MessageCall& out, const MessageCall& in,
                              const std::shared_ptr<Pool<Message>>& pool);
  bool is_returned_soon(int peer) noexcept;
  Work await_return(const MessageCall& out, black_box::Flight flight,
                    const std::shared_ptr<Pool<Message>>& pool) noexcept;
  transport::Link::Taken take_expected(const MessageCall& call, ShortWait& wait) noexcept;
  void wait_a_little(const Message& receive, ShortWait& wait) noexcept;
  void trace_send(const MessageCall& call, std::int64_t begun, std::uint64_t order) noexcept;
  /// A call as the black box has it; programs often repeat the last one.
  struct Noted {
    int peer = -1;
    int tag = 0;
    std::size_t count = 0;
    DataType type{};
    black_box::Form form{};
    bool is(const MessageCall& call) const {
      return peer == call.peer && tag == call.tag && count == call.count && type == call.type;
    }
  };
  black_box::Flight note_begin(const MessageCall& call, Noted& last, std::int64_t now) noexcept;

  Messages& messages_;
  Group& group_;
  MessageLinks& links_;
  WaitingMessages& waiting_;
  ActiveMessages& active_;
  std::unique_ptr<Message> spare_;       // reused for receives that the engine never sees
  std::unique_ptr<Message> spare_send_;  // for a single copy that takes long
  Noted last_send_, last_receive_;
};

}  // namespace tutti::detail
