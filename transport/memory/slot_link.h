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

/// One end of a ring and of whatever rings its peer: all that differs between transports made of slots.
/// Destroying it tells the other end that this one has left.
class RingEndpoint {
 public:
  virtual ~RingEndpoint();
  virtual RingMemory& ring() noexcept = 0;
  /// That the ring has, for payloads.
  virtual std::size_t areas() const noexcept { return slot_count; }
  virtual void wake_peer() noexcept = 0;
  /// The other end has left; what it wrote into the ring before is visible.
  virtual bool peer_left() const noexcept = 0;
  /// Ends the connection as a broken network would: to both ends it looks as if the other had left.
  virtual void cut() noexcept = 0;
  /// The peer has got what it needs to see the ring; until then it must be kept.
  virtual bool introduced() const noexcept { return true; }
  /// Why the peer could not be reached after all, or null.
  virtual const Error* trouble() const noexcept { return nullptr; }
  /// Copies from where the other end's process has it. False: that did not work, and `errno` says why.
  virtual bool read_peer(std::span<std::byte> to, std::uint64_t address) noexcept;
  /// That it did not work at first, and so will not be tried again.
  virtual void say_unreadable(int /*error*/) noexcept {}
};

/// Short messages are not worth it, and what comes unasked may have to wait for long until it is wanted.
bool may_be_lent(const Frame& frame);
/// A peer has gone without a word.
Error lost(int peer, const std::string& how_far);

/// What links need from their transport.
class SlotHost {
 public:
  /// A new ring to `peer`, which may be filled at once. Throws Error.
  virtual std::unique_ptr<RingEndpoint> reach(int peer, Channel channel) = 0;
  /// `link` has messages that did not fit, or are lent.
  virtual void backlog(OutboundSlotLink& link) noexcept = 0;
  virtual const CopyPolicy& copy_policy() const noexcept = 0;
  /// Some link has something to report: look at all of them in the next progress().
  virtual void attention() noexcept = 0;
  /// A peer's memory cannot be read.
  virtual void unreadable(int /*error*/) noexcept {}

 protected:
  ~SlotHost() = default;
};

/// Messages whose senders cannot have them back yet, in order: first those that the receiver may read, of which the
/// front one at least is lent, then those that wait for free slots. Keeps its storage, and has some from the start: how
/// far a peer lags differs from call to call, and a call that is warm must not allocate.
class SendQueue {
 public:
  SendQueue() { messages_.reserve(16); }

  struct Message {
    Frame frame;
    std::span<const std::byte> rest;
    Token token;
    bool begun = false;
    std::uint64_t lent = 0;  ///< not 0: it lies where it was until so many fillings are free
  };

  bool empty() const { return head_ == messages_.size(); }
  std::size_t size() const { return messages_.size() - head_; }
  Message& front() { return messages_[head_]; }
  void push(const Message& message);
  void pop() { ++head_; }
  void clear() { head_ = waiting_ = messages_.size(); }

  /// All of them may be read.
  bool all_handed_over() const { return waiting_ == messages_.size(); }
  /// The first of those that wait for free slots. There is one.
  Message& waiting() { return messages_[waiting_]; }
  bool is_waiting(const Message& message) const { return &message >= messages_.data() + waiting_; }
  /// It has them now.
  void hand_over() { ++waiting_; }

 private:
  std::vector<Message> messages_;
  std::size_t head_ = 0;
  std::size_t waiting_ = 0;
};

/// The sender's side of a link. It gets its ring at the first message.
class OutboundSlotLink final : public Link {
 public:
  OutboundSlotLink(SlotHost& host, int peer, Channel channel) : Link(peer, channel), host_(&host) {}

  bool send(const Frame& frame, std::span<const std::byte> payload, Token token) noexcept override;
  bool send_at_once(const Frame& frame, std::span<const std::byte> payload) noexcept override;
  bool may_lend(std::uint64_t length) const noexcept override;
  /// Nothing is ever parked here.
  void resume() noexcept override {}
  /// Ends the peer's sleep.
  void wake() noexcept;

  bool idle() const { return queue_.empty(); }
  /// Moves what fits of the backlog; true if anything did. Without a sink nobody hears of it.
  bool push(Sink* sink) noexcept;
  /// Finds out whether the peer has left and tells the sink about a failure, once; true if it did.
  bool attend(Sink& sink) noexcept;
  /// False: there is something to do, or the transport must not sleep. Call disarm() in any case.
  bool arm() noexcept;
  void disarm() noexcept;

  /// The link has nothing to wait for: all is in the ring, or read, or never will be.
  bool flushed() noexcept;
  /// A goodbye if all was sent, else silence; the transport destroys the link next.
  void say_goodbye() noexcept;
  void say_abort(const Error& reason) noexcept;
  /// Plays a broken network.
  void cut() noexcept;

 private:
  enum class State { fresh, open, closed_by_peer, failing, over };

  bool usable() noexcept;
  void connect() noexcept;
  bool push(SendQueue::Message& message) noexcept;
  bool is_to_lend(const SendQueue::Message& message) const noexcept;
  bool give_back(Sink* sink) noexcept;
  void notice_departure() noexcept;
  void fail(const Error& reason) noexcept;

  SlotHost* host_;
  std::unique_ptr<RingEndpoint> endpoint_;
  std::optional<RingWriter> writer_;
  std::uint64_t sample_ = 0;  // in the ring, too, for a receiver that wants to see whether it can read here
  SendQueue queue_;
  State state_ = State::fresh;
  std::optional<Error> reason_;
};

/// The receiver's side of a link.
class InboundSlotLink final : public Link {
 public:
  InboundSlotLink(int peer, Channel channel, std::unique_ptr<RingEndpoint> endpoint, const CopyPolicy& copy_policy);

  /// Messages go the other way on this link: never called.
  bool send(const Frame& frame, std::span<const std::byte> payload, Token token) noexcept override;
  void resume() noexcept override;

  /// Delivers what has arrived, at most a ring full; true if anything happened.
  bool pull(Sink& sink) noexcept { return pull(sink, slot_count); }
  bool is_pulled() const noexcept override { return true; }
  bool pull_piece(Sink& sink) noexcept override { return pull(sink, 1); }
  Taken take(const FrameWords& frame, std::span<std::byte> to) noexcept override;
  /// Finds out whether the peer has left; the next pull() draws the conclusions.
  void attend() noexcept;
  /// False: there is something to do. Call disarm() in any case.
  bool arm() noexcept;
  void disarm() noexcept;

  /// Throws away what arrives, so that the sender can finish; true if anything did.
  bool discard() noexcept;
  /// Tells the sender that no more is wanted; the transport destroys the link next.
  void say_goodbye() noexcept;
  void say_abort(const Error& reason) noexcept;
  /// Plays a broken network.
  void cut() noexcept;

 private:
  bool pull(Sink& sink, std::size_t most_slots) noexcept;
  bool begin(Sink& sink) noexcept;
  void take_slot(Sink& sink) noexcept;
  std::size_t take_lent(Sink& sink) noexcept;
  void finish(Sink& sink) noexcept;
  void note_how_it_came() noexcept;
  void stop_reading(Sink& sink, int error) noexcept;
  void try_to_read() noexcept;
  void release() noexcept;
  void conclude(Sink& sink) noexcept;
  void fail(Sink& sink, const Error& reason) noexcept;
  Parting parting() const noexcept;

  std::unique_ptr<RingEndpoint> endpoint_;
  RingReader reader_;
  Frame frame_{};                                                          // of the current message
  std::uint64_t rest_ = 0;                                                 // bytes of it that are still to come
  bool lent_ = false;                                                      // it comes out of the sender's memory
  std::uint64_t lent_from_ = 0;                                            // where these are there
  std::byte* destination_ = nullptr;                                       // of these, where it was accepted to memory
  void (*copy_)(void* to, const void* from, std::size_t bytes) = nullptr;  // Acceptance::copy
  bool inside_ = false;                                                    // a message was accepted and is not complete
  CopyChoice choice_;
  bool can_read_ = false;         // the sender's memory, as was tried
  Clock::time_point began_{};     // a message that may be lent
  std::size_t slots_before_ = 0;  // of it that were filled by then
  bool parked_ = false;
  bool resumed_ = false;   // during the sink's decision
  bool departed_ = false;  // the peer has left; the ring holds all there will ever be
  bool over_ = false;
};

}  // namespace tutti::transport
