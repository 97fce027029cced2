#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/memory/slot_ring.h"
#include "transport/transport.h"

namespace tutti::transport {

class OutboundSlotLink;

/// One end of a ring, and the means to wake the peer: the part that differs between transports made of slots.
/// Destroying it tells the other end that this one has left.
class RingEndpoint {
 public:
  virtual ~RingEndpoint();
  virtual RingMemory& ring() noexcept = 0;
  /// The same, to keep it mapped.
  virtual std::shared_ptr<RingMemory> share_ring() noexcept = 0;
  /// Areas for payloads that the ring brings along.
  virtual std::size_t areas() const noexcept { return least_areas; }
  virtual void wake_peer() noexcept = 0;
  /// The other end has left; all that it wrote into the ring before that is visible.
  virtual bool peer_left() const noexcept = 0;
  /// Cuts the connection as a broken network would: each end sees the other one leave.
  virtual void cut() noexcept = 0;
  /// The peer has received the ring. Until then this endpoint must be kept.
  virtual bool introduced() const noexcept { return true; }
  /// Why the peer could not be reached after all, or null.
  virtual const Error* trouble() const noexcept { return nullptr; }
  /// Copies from `address` in the peer's process. False: it failed, and `errno` has the reason.
  virtual bool read_peer(std::span<std::byte> to, std::uint64_t address) noexcept;
  /// Reports once that reading failed, so that it will not be tried again.
  virtual void say_unreadable(int /*error*/) noexcept {}
};

/// Single copy is worthwhile for messages of that length.
constexpr bool allows_single_copy(const Frame& frame) { return frame.length >= CopyChoice::least_bytes; }
/// The peer has gone without a close record.
Error lost(int peer, const std::string& how_far);

/// What links need from their transport.
class SlotHost {
 public:
  /// A new ring to `peer`, which may be filled at once. Throws Error.
  virtual std::unique_ptr<RingEndpoint> reach(int peer, Channel channel) = 0;
  /// The areas between this rank and `peer`.
  virtual std::shared_ptr<Areas> areas(int peer, Channel channel) = 0;
  /// `link` has messages that did not fit, or that wait to be read by single copy.
  virtual void backlog(OutboundSlotLink& link) noexcept = 0;
  virtual const CopyPolicy& copy_policy() const noexcept = 0;
  /// A link has something to report: the next progress() must look at all of them.
  virtual void attention() noexcept = 0;
  /// A peer's memory cannot be read.
  virtual void unreadable(int /*error*/) noexcept {}

 protected:
  ~SlotHost() = default;
};

/// Messages whose memory is not yet the sender's again, in order: first those that the receiver may read, the first of
/// which uses single copy, then those that wait for free slots. The storage is reserved in advance and kept, since a
/// warm call must not allocate, and how far a peer lags differs from call to call.
class SendQueue {
 public:
  SendQueue() { messages_.reserve(16); }

  struct Message {
    Frame frame;
    std::span<const std::byte> rest;
    Token token;
    bool begun = false;
    std::uint64_t held_until = 0;  ///< not 0: it uses single copy, until that many fillings have been freed
  };

  bool empty() const { return head_ == messages_.size(); }
  std::size_t size() const { return messages_.size() - head_; }
  Message& front() { return messages_[head_]; }
  void push(const Message& message);
  void pop() { ++head_; }
  void clear() { head_ = waiting_ = messages_.size(); }

  /// The receiver may read all of them.
  bool all_handed_over() const { return waiting_ == messages_.size(); }
  /// The first message that waits for free slots. There must be one.
  Message& waiting() { return messages_[waiting_]; }
  bool is_waiting(const Message& message) const { return &message >= messages_.data() + waiting_; }
  /// The first waiting message has been handed over.
  void hand_over() { ++waiting_; }

 private:
  std::vector<Message> messages_;
  std::size_t head_ = 0;
  std::size_t waiting_ = 0;
};

/// The sender's side of a link. The ring is made at the first message.
class OutboundSlotLink final : public Link {
 public:
  OutboundSlotLink(SlotHost& host, int peer, Channel channel) : Link(peer, channel), host_(&host) {}

  bool send(const Frame& frame, std::span<const std::byte> payload, Token token) noexcept override;
  bool try_send(const FrameWords& frame, std::span<const std::byte> payload) noexcept override;
  bool try_lend(const FrameWords& frame, std::span<const std::byte> payload) noexcept override;
  bool is_returned() noexcept override;
  void await_return(Token token) noexcept override;
  bool may_lend(std::uint64_t length) const noexcept override;
  /// The question takes longer than the copy of such a message (half a ping-pong of 256 KiB between 2 ranks: 14.5 us
  /// with it, 9.8 without).
  std::uint64_t longest_unasked() const noexcept override { return std::uint64_t{256} * 1024; }
  /// Outgoing messages are never parked.
  void resume() noexcept override {}

  bool idle() const { return queue_.empty(); }
  /// Moves as much of the backlog as fits; true if anything was moved. Without a sink, completions are dropped.
  bool push(Sink* sink) noexcept;
  /// Checks whether the peer has left and reports a failure to the sink, once; true if it did.
  bool attend(Sink& sink) noexcept;
  /// False: there is work to do, or the transport must not sleep. Call disarm() in any case.
  bool arm() noexcept;
  void disarm() noexcept;

  /// Nothing is left to send: every message is in the ring, has been read, or never will be.
  bool flushed() noexcept;
  /// Writes a bye if all was sent, otherwise nothing; the transport destroys the link next.
  void say_bye() noexcept;
  void say_abort(const Error& reason) noexcept;
  /// Fault injection: a broken network.
  void cut() noexcept;

 private:
  enum class State { fresh, open, closed_by_peer, failing, over };

  bool usable() noexcept;
  void connect() noexcept;
  bool push(SendQueue::Message& message, bool may_use_single_copy = true) noexcept;
  bool wants_single_copy(std::span<const std::byte> message) const noexcept;
  bool give_back(Sink* sink) noexcept;
  void notice_departure() noexcept;
  void fail(const Error& reason) noexcept;

  SlotHost* host_;
  std::unique_ptr<RingEndpoint> endpoint_;
  std::shared_ptr<Areas> areas_;
  std::optional<RingWriter> writer_;
  std::uint64_t sample_ = 0;  // also in the ring, so that a receiver can test whether it can read this process
  SendQueue queue_;
  State state_ = State::fresh;
  std::optional<Error> reason_;
};

/// The receiver's side of a link.
class InboundSlotLink final : public Link {
 public:
  InboundSlotLink(int peer, Channel channel, std::unique_ptr<RingEndpoint> endpoint, std::shared_ptr<Areas> areas,
                  const CopyPolicy& copy_policy, std::shared_ptr<CopyChoice> choice);

  /// Never called: this end only receives.
  bool send(const Frame& frame, std::span<const std::byte> payload, Token token) noexcept override;
  void resume() noexcept override;

  /// Delivers what has arrived, at most a ring full; true if anything was delivered.
  bool pull(Sink& sink) noexcept { return pull(sink, slot_count); }
  /// Begins a pass: delivers messages of up to short_bytes that have arrived, at most a ring full, and stops before a
  /// longer one. True if any was delivered.
  bool pull_short(Sink& sink) noexcept;
  /// Whether pull_short() left something for a pull() in this pass.
  bool has_more() const noexcept { return has_more_; }
  bool is_pulled() const noexcept override { return true; }
  bool pull_piece(Sink& sink) noexcept override { return pull(sink, 1); }
  Taken take(const FrameWords& frame, std::span<std::byte> to, int senders_to_root) noexcept override;
  /// Checks whether the peer has left; the next pull() acts on it.
  void attend() noexcept;
  /// False: there is work to do. Call disarm() in any case.
  bool arm() noexcept;
  void disarm() noexcept;

  /// Discards what arrives, so that the sender can finish; true if anything was discarded.
  bool discard() noexcept;
  /// Tells the sender that nothing more is wanted; the transport destroys the link next.
  void say_bye() noexcept;
  void say_abort(const Error& reason) noexcept;
  /// Fault injection: a broken network.
  void cut() noexcept;

 private:
  bool pull(Sink& sink, std::size_t most_slots) noexcept;
  Taken take_pieces(const Acceptance& acceptance) noexcept;
  Taken take_lent(const Acceptance& acceptance, std::uint64_t address) noexcept;
  bool begin(Sink& sink) noexcept;
  void begin(const Frame& frame, const Acceptance& acceptance, bool is_single_copy) noexcept;
  void copy(std::span<const std::byte> piece) noexcept;
  void take_slot(Sink& sink) noexcept;
  bool read_from_sender(std::span<std::byte> to, std::uint64_t address) noexcept;
  std::size_t take_single_copy(Sink& sink) noexcept;
  void finish(Sink& sink) noexcept;
  void end() noexcept;
  void note_how_it_came() noexcept;
  std::chrono::nanoseconds time_taken() const noexcept;
  template <class Copy>
  void spend_on(bool is_timed, std::size_t bytes, Copy&& copy) noexcept;
  void stop_reading(Sink& sink, int error) noexcept;
  void try_to_read() noexcept;
  void release() noexcept;
  void conclude(Sink& sink) noexcept;
  void fail(Sink& sink, const Error& reason) noexcept;
  Departure departure() const noexcept;

  std::unique_ptr<RingEndpoint> endpoint_;
  std::shared_ptr<Areas> areas_;
  RingReader reader_;
  Frame frame_{};                     // of the current message
  std::uint64_t rest_ = 0;            // bytes of it still to come
  bool is_single_copy_ = false;       // it is read from the sender's memory
  std::uint64_t address_ = 0;         // where the rest lies there
  std::byte* destination_ = nullptr;  // where the rest goes, if it was accepted to memory
  CopyFunction* copy_ = nullptr;      // Acceptance::copy, or plain_copy_
  bool inside_ = false;               // a message was accepted and is not complete
  bool has_more_ = false;
  std::shared_ptr<CopyChoice> choice_;
  CopyFunction* plain_copy_;
  bool can_read_ = false;       // the sender's memory was read in a test
  bool is_unreadable_ = false;  // or could not be
  bool shares_cores_ = false;
  CopyClocks clocks_;
  bool is_timed_ = false;               // this message is one of a trial
  TimedPieces timed_;                   // of it, if it comes through slots
  std::uint64_t timed_bytes_ = 0;       // of it
  std::chrono::nanoseconds began_{};    // when it began
  std::size_t slots_to_count_ = 0;      // for the next slots of it, the sender's copies count in the time
  std::chrono::nanoseconds copying_{};  // of those; where cores are shared: of `timed_bytes_`, and of copies here
  bool parked_ = false;
  bool resumed_ = false;   // during the sink's decision
  bool departed_ = false;  // the peer has left; no more will be written to the ring
  bool over_ = false;
};

}  // namespace tutti::transport
