#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/engine/roster.h"
#include "lib/engine/short_wait.h"
#include "lib/group/checksum.h"
#include "lib/group/group_user.h"
#include "lib/message/eager_credit.h"
#include "lib/message/matching.h"
#include "lib/message/message.h"

namespace tutti::detail {

class Group;
struct Status;

/// Point to point of one communicator, on a channel of its own.
///
/// Small messages travel eagerly: they are buffered at the receiver if nobody has asked for them yet. A sender may
/// have so much outstanding at one receiver (EagerCredit); beyond that, and for larger messages, it asks first
/// (request), and sends the payload once the receiver has a place for it (grant, bulk). With the request goes the
/// beginning of the message, eagerly, if there is credit for it: it is under way while the grant is. So the memory that
/// unexpected messages take is bounded, and a large message is read straight into its destination. What its link may
/// lend is no small message where ranks have a core each, and nothing of it goes ahead. Matching is MPI's: receives in
/// the order they were posted, messages of one sender in the order they were sent.
class Messages final : public GroupUser {
 public:
  Messages(Group& group, transport::Channel channel);
  ~Messages();

  static constexpr std::size_t eager_limit = 64 * 1024;
  /// Of a large message so much goes with its request.
  static constexpr std::size_t head_limit = 32 * 1024;

  /// Ready for Engine::submit(). Any thread.
  Message& make(const MessageCall& call);
  /// For callers that wait: does it without the engine's help where that is quick. Any thread. False, nothing: nothing
  /// has happened, make() one.
  bool send_at_once(const MessageCall& call) noexcept;
  std::optional<MessageStatus> receive_at_once(const MessageCall& call);

  // ---- Owner of the engine ----
  void start(Message& message) noexcept;
  /// A message takes long: asks the others about it, or gives it up.
  void ask(Message& message, bool overdue) noexcept;
  void give_up(Message& message) noexcept;
  black_box::Flight record_at_once(const MessageCall& call, std::int64_t now) noexcept;
  /// For it; 0 where nothing is recorded.
  std::int64_t coarse_now() const noexcept;
  /// What a receive would get if it were called now; nothing: it would have to wait.
  std::optional<MessageStatus> look_for(int peer, int tag) noexcept;
  Group& group() { return group_; }
  bool describe_wait(Status& status, Which which) const override;
  bool busy() const noexcept override { return !active_.empty(); }
  void fail_all(const Error& reason) noexcept override;

 private:
  struct Envelope {
    int source = -1;
    int tag = 0;
    DataType type{};
    std::size_t length = 0;
    std::uint64_t order = 0;
  };
  /// A message that came before its receive, or does not fit into it.
  struct Unexpected {
    Envelope envelope;
    std::vector<std::byte> data;  // the message, or what came with its request
    bool complete = false;        // all of `data` is there
    std::uint32_t number = 0;     // a request: the sender's number for it
    Message* local = nullptr;     // a large message to oneself: the send itself
    Message* taker = nullptr;     // matched while `data` was still arriving
    bool request = false;
  };
  using Kept = std::list<Unexpected>::iterator;
  /// What the link from one peer is in the middle of.
  struct Incoming {
    Message* message = nullptr;
    std::optional<Kept> unexpected{};
    transport::FrameKind kind{};
    std::span<std::byte> memory{};  // for its payload
    Arriving arriving{};
  };
  struct PeerState {
    transport::Link* out = nullptr;
    transport::Link* in = nullptr;     // brings messages
    transport::Link* aside = nullptr;  // takes credit
    std::uint64_t messages_sent = 0;
    std::uint64_t messages_come = 0;
    EagerCredit credit;
    Incoming incoming;
    std::optional<Error> lost;  // nothing can be sent there any more

    /// How much of a message that may not be sent eagerly goes with its request. `out` is there.
    std::size_t head_of(std::size_t length) const {
      return length > eager_limit && !out->may_lend(length) && credit.allows(head_limit) ? head_limit : 0;
    }
  };

  bool knows(int rank) const noexcept override;
  transport::Acceptance arrived(transport::Link& from, const transport::Frame& frame) noexcept override;
  void view(transport::Link&, std::span<const std::byte>) noexcept override {}
  void received(transport::Link& from) noexcept override;
  void sent(transport::Link& to, transport::Token token) noexcept override;
  void failed(transport::Link& link, const Error& reason) noexcept override;

  static transport::Frame frame_of(transport::FrameKind kind, const MessageCall& call, std::uint32_t slot,
                                   std::size_t length);
  /// Sees to it that `out` is there. False: nothing can be sent to the peer any more, and the group fails.
  bool reach(int peer) noexcept;
  /// The peer's `out` is there.
  bool may_send_eagerly(const PeerState& peer, std::size_t length) const noexcept;
  bool may_be_at_once(int peer) const noexcept;
  void record_send(const MessageCall& call, std::int64_t begun, std::uint64_t order) noexcept;
  bool send_owned(const MessageCall& call) noexcept;
  bool may_receive_at_once(int peer) noexcept;
  bool take_expected(const MessageCall& call, ShortWait& wait) noexcept;
  void wait_a_little(const Message& receive, ShortWait& wait) noexcept;
  void start_send(Message& message) noexcept;
  void start_receive(Message& message) noexcept;
  void start_probe(Message& probe) noexcept;
  /// This message waits for its receive: probes learn of it.
  void keep(Kept kept) noexcept;
  /// Tells the links from `peer`, or from all for any_source, that something is expected.
  void look_out(int peer) noexcept;
  void send_to_self(Message& message) noexcept;
  void take(Message& receive, Kept from) noexcept;
  void grant(Message& receive, const Envelope& envelope, std::uint32_t number, std::size_t head) noexcept;
  static MessageStatus status_of(const Envelope& envelope, std::size_t unit);
  bool fits(const Message& receive, const Envelope& envelope) noexcept;
  /// The receive gets this message.
  void assign(Message& receive, const Envelope& envelope) noexcept;
  void deliver(Message& receive, const Envelope& envelope) noexcept;
  Error does_not_fit(const Message& receive, const Envelope& envelope) const;
  void consumed(int source, std::size_t bytes) noexcept;
  void push(int peer, transport::Frame frame, std::span<const std::byte> payload, transport::Token token,
            Message* sender) noexcept;
  bool arrived_grant(int source, const transport::Frame& frame) noexcept;
  Message* granted(int source, const transport::Frame& frame) const;
  Message* active(std::uint64_t slot, Message::Kind kind, Message::Stage stage) const;
  transport::Acceptance arrived_first(PeerState& peer, const Envelope& envelope,
                                      const transport::Frame& frame) noexcept;
  void end(Message& message, const Error* error = nullptr) noexcept;
  /// The first message from `peer`, or any, that waits for a receive, in words; empty: there is none.
  std::string unclaimed(int peer) const;
  /// Ends with the group's failure, put into this message's words.
  void end_failed(Message& message, const Error& reason) noexcept;
  PeerState& state_of(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  Group& group_;
  transport::Channel channel_;
  std::shared_ptr<Pool<Message>> pool_;
  std::unique_ptr<Message> spare_;  // for receives done at once, which need not go through the pool
  std::vector<PeerState> peers_;
  std::list<Unexpected> unexpected_;
  Matching<Message*, Kept> matching_;  // receives, and what is in unexpected_ and has no taker
  std::vector<Message*> probes_;       // that wait
  Roster<Message> active_;             // everything started and not ended
  AskLimit ask_limit_;
};

}  // namespace tutti::detail
