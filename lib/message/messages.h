#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/group/checksum.h"
#include "lib/group/group_user.h"
#include "lib/message/active_messages.h"
#include "lib/message/large_messages.h"
#include "lib/message/message.h"
#include "lib/message/message_fast_path.h"
#include "lib/message/message_links.h"
#include "lib/message/waiting_messages.h"

namespace tutti::detail {

class Group;
struct Status;

/// The point-to-point messages of one communicator, on a channel of their own. It starts sends, receives and probes,
/// and brings each arriving message to its receive.
///
/// Messages match receives as in MPI: receives in the order in which they were called, messages of one sender in the
/// order in which they were sent. A small message is sent eagerly and kept at the receiver until its receive is called.
/// A sender may have only a limited number of bytes outstanding at one receiver (EagerCredit). Beyond that, and for
/// larger messages, it asks first (LargeMessages). So the memory that unexpected messages take is bounded.
class Messages final : public GroupUser {
 public:
  Messages(Group& group, transport::Channel channel);
  ~Messages();

  /// Makes a message that is ready for Engine::submit(). Any thread.
  Message& make(const MessageCall& call);
  /// For callers that wait: sends or receives inline, if that is quick. Any thread. If it returns false or nothing,
  /// nothing has happened, and the caller must make() a message.
  bool send_inline(const MessageCall& call) noexcept { return fast_path_.send(call); }
  std::optional<MessageStatus> receive_inline(const MessageCall& call) { return fast_path_.receive(call, pool_); }
  MessageFastPath::Exchange exchange_inline(const MessageCall& out, const MessageCall& in) {
    return fast_path_.exchange(out, in, pool_);
  }

  // ---- Owner of the engine ----
  /// For a message on device memory, which cannot begin before its stream gets there: what ends sooner is its
  /// communicator, and then the message, too. Keeps a reference until then.
  void await_stream(Message& message);
  /// The stream of a message that is not over has got there. Begins it.
  void stream_is_there(Message& message);
  void start(Message& message) noexcept;
  void start_receive(Message& receive) noexcept;
  /// The message for `receive` has begun to arrive in its memory: Link::Taken::begun.
  void receive_begun(Message& receive) noexcept;
  /// Handles a message that takes long: asks the other ranks about it, or gives up.
  void ask(Message& message, bool overdue) noexcept;
  void give_up(Message& message) noexcept;
  /// Ends a probe at its deadline. It has taken nothing, so that nobody else need know.
  void probe_expired(Message& probe) noexcept;
  /// The time for the black box; 0 without one.
  std::int64_t coarse_now() const noexcept;
  /// The message that a receive would get if it were called now; nothing: it would have to wait.
  std::optional<MessageStatus> look_for(int peer, int tag) noexcept;
  Group& group() { return group_; }
  bool describe_wait(Status& status, Which which) const override;
  bool busy() const noexcept override { return !active_.empty(); }
  void fail_all(const Error& reason) noexcept override;
  void close() noexcept override;

 private:
  using Kept = WaitingMessages::Kept;
  /// The message that is arriving on the link from a peer.
  struct Incoming {
    Message* message = nullptr;
    std::optional<Kept> unexpected{};
    transport::FrameKind kind{};
    std::span<std::byte> memory{};  // where its payload goes
    Arriving arriving{};
  };

  bool knows(int rank) const noexcept override;
  transport::Acceptance arrived(transport::Link& from, const transport::Frame& frame) noexcept override;
  void view(transport::Link&, std::span<const std::byte>) noexcept override {}
  void received(transport::Link& from) noexcept override;
  void sent(transport::Link& to, transport::Token token) noexcept override;
  void failed(transport::Link& link, const Error& reason) noexcept override;

  void start_send(Message& message) noexcept;
  void send_to_self(Message& message) noexcept;
  void start_probe(Message& probe) noexcept;
  void take(Message& receive, Kept from) noexcept;
  transport::Acceptance arrived_first(const Envelope& envelope, const transport::Frame& frame) noexcept;
  bool may_grant_early(const Envelope& envelope) noexcept;
  transport::Acceptance grant_early(const Envelope& envelope, std::uint32_t sender_slot) noexcept;
  bool keep_granted(int source, const transport::Frame& bulk) noexcept;
  Incoming& incoming_from(int rank) { return incoming_[static_cast<std::size_t>(rank)]; }

  Group& group_;
  std::shared_ptr<Pool<Message>> pool_;
  MessageLinks links_;
  ActiveMessages active_;
  std::vector<Message*> awaiting_streams_;
  WaitingMessages waiting_{active_};
  LargeMessages large_{links_, active_};
  MessageFastPath fast_path_{*this, links_, waiting_, active_};
  std::vector<Incoming> incoming_;  // by rank of the group
  AskLimit ask_limit_;
};

}  // namespace tutti::detail
