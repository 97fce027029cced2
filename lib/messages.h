#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/black_box.h"
#include "lib/checksum.h"
#include "lib/engine.h"
#include "lib/fifo.h"
#include "lib/pool.h"
#include "lib/short_wait.h"
#include "lib/trace/recorder.h"
#include "lib/vigil.h"
#include "tutti/types.h"

namespace tutti::detail {

class Group;
class Messages;
struct Status;

/// A checked send or receive.
struct MessageCall {
  enum class Kind : std::uint8_t { send, receive };

  Kind kind = Kind::send;
  std::span<std::byte> bytes;  ///< of a send: only read
  std::size_t count = 0;       ///< of elements
  DataType type{};
  int peer = -1;  ///< group rank; any_source for some receives
  int tag = 0;
  std::chrono::milliseconds timeout{};

  /// "send of 100 x f32 to rank 1 (tag 0)".
  std::string describe() const;
  /// What the black box notes down of it.
  black_box::Call recorded(std::uint64_t group) const {
    return {.group = group,
            .count = count,
            .root = peer,
            .tag = tag,
            .collective = kind == Kind::send ? black_box::send : black_box::receive,
            .type = static_cast<std::uint8_t>(type)};
  }
};

/// One send or receive on its way.
class Message final : public Pending, public MessageCall {
 public:
  explicit Message(std::shared_ptr<Engine> engine) : Pending(std::move(engine)) {}
  void prepare(Messages& messages, const MessageCall& call, std::shared_ptr<Pool<Message>> pool);
  /// A receive whose caller looks for it himself, until it is done or he hands it over to the engine.
  void begin_at_once(black_box::Flight flight) noexcept;
  void hand_over() noexcept { is_at_once_ = false; }
  bool is_at_once() const { return is_at_once_; }

  void start() noexcept override;
  /// For the black box and the log; null: all is well.
  void note_end(const Error* error) noexcept;
  void expire() noexcept override;
  /// For the trace: what it receives begins to arrive.
  void note_arrived() noexcept;

  std::uint32_t number = 0;  ///< of a large send: names it in request, grant and bulk frames
  std::uint32_t slot = 0;
  std::size_t head = 0;     ///< of a large message: bytes that came with its request
  std::uint64_t order = 0;  ///< which of the messages from its sender to its receiver; 0: not known yet
  enum class Stage : std::uint8_t { begun, asked, granted } stage = Stage::begun;  ///< of a large message

 private:
  void recycle() noexcept override;
  void note_start(Clock::time_point now) noexcept;
  void record(trace::Recorder& recorder, bool failed) const noexcept;

  black_box::Flight flight_;
  std::int64_t begun_ = 0;  // ticks, for the trace only
  std::int64_t arrived_ = 0;

  Messages* messages_ = nullptr;
  std::shared_ptr<Pool<Message>> pool_;
  Vigil vigil_;
  bool is_at_once_ = false;
  bool has_begun_ = false;
};

/// Point to point of one communicator, on a channel of its own.
///
/// Small messages travel eagerly: they are buffered at the receiver if nobody has asked for them yet. A sender may
/// have `eager_credit` such bytes, and some for each message, outstanding at one receiver; beyond that, and for larger
/// messages, it asks first (request), and sends the payload once the receiver has a place for it (grant, bulk). With
/// the request goes the beginning of the message, eagerly, if there is credit for it: it is under way while the grant
/// is. So the memory that unexpected messages take is bounded, and a large message is read straight into its
/// destination. What its link may lend is no small message where ranks have a core each, and nothing of it goes ahead.
/// Matching is MPI's: receives in the order they were posted, messages of one sender in the order they were sent.
class Messages final : public ChannelUser {
 public:
  Messages(Group& group, transport::Channel channel);
  ~Messages();

  static constexpr std::size_t eager_limit = 64 * 1024;
  static constexpr std::size_t eager_credit = 1024 * 1024;
  /// Of a large message so much goes with its request.
  static constexpr std::size_t head_limit = 32 * 1024;
  /// What a message costs its receiver besides its bytes.
  static constexpr std::size_t overhead = 256;

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
  Group& group() { return group_; }
  void testify(Status& status) const;
  /// The longest waiting send or receive in words; empty: none.
  std::string busy_with() const;
  bool busy() const;
  void fail_all(const Error& reason) noexcept;

 private:
  struct Envelope {
    int source = -1;
    int tag = 0;
    DataType type{};
    std::size_t length = 0;
    std::uint64_t order = 0;
  };
  /// A message that came before its receive.
  struct Unexpected {
    Envelope envelope;
    std::vector<std::byte> data;  // the message, or what came with its request
    bool complete = false;        // all of `data` is there
    std::uint32_t number = 0;     // a request: the sender's number for it
    Message* local = nullptr;     // a large message to oneself: the send itself
    Message* taker = nullptr;     // matched while `data` was still arriving
    bool request = false;
  };
  /// What the link from one peer is in the middle of.
  struct Incoming {
    Message* message = nullptr;
    std::list<Unexpected>::iterator unexpected;
    bool to_unexpected = false;
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
    std::size_t eager_outstanding = 0;  // bytes sent eagerly and not credited back
    std::size_t eager_consumed = 0;     // bytes taken from the peer and not credited yet
    Incoming incoming;
    std::optional<Error> lost;  // nothing can be sent there any more

    bool has_credit(std::size_t length) const { return eager_outstanding + length + overhead <= eager_credit; }
    /// How much of a message that may not be sent eagerly goes with its request. `out` is there.
    std::size_t head_of(std::size_t length) const {
      return length > eager_limit && !out->may_lend(length) && has_credit(head_limit) ? head_limit : 0;
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
  /// Tells the links from `peer`, or from all for any_source, that something is expected.
  void look_out(int peer) noexcept;
  void send_to_self(Message& message) noexcept;
  /// The first posted receive that takes this message, taken off the list; or null.
  Message* match(const Envelope& envelope) noexcept;
  void take(Message& receive, std::list<Unexpected>::iterator from) noexcept;
  void grant(Message& receive, const Envelope& envelope, std::uint32_t number, std::size_t head) noexcept;
  bool fits(const Message& receive, const Envelope& envelope) noexcept;
  /// The receive gets this message.
  void assign(Message& receive, const Envelope& envelope) noexcept;
  void deliver(Message& receive, const Envelope& envelope) noexcept;
  void consumed(int source, std::size_t bytes) noexcept;
  void push(int peer, transport::Frame frame, std::span<const std::byte> payload, transport::Token token,
            Message* sender) noexcept;
  bool arrived_grant(int source, const transport::Frame& frame) noexcept;
  Message* granted(int source, const transport::Frame& frame) const;
  Message* active(std::uint64_t slot, Message::Kind kind, Message::Stage stage) const;
  transport::Acceptance arrived_first(PeerState& peer, const Envelope& envelope,
                                      const transport::Frame& frame) noexcept;
  std::uint32_t remember(Message& message) noexcept;
  void end(Message& message, const Error* error = nullptr) noexcept;
  /// Ends with the group's failure, put into this message's words.
  void end_failed(Message& message, const Error& reason) noexcept;
  PeerState& state_of(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  Group& group_;
  transport::Channel channel_;
  std::shared_ptr<Pool<Message>> pool_;
  std::unique_ptr<Message> spare_;  // for receives done at once, which need not go through the pool
  std::vector<PeerState> peers_;
  std::vector<Message*> posted_;      // receives that nothing matched yet, in order
  std::list<Unexpected> unexpected_;  // in order of arrival
  std::vector<Message*> active_;      // by slot: everything started and not ended; null: free
  std::vector<std::uint32_t> free_slots_;
  std::size_t active_count_ = 0;
};

}  // namespace tutti::detail
