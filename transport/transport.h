#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/frame.h"
#include "tutti/error.h"

namespace tutti::transport {

class Board;
class Link;

/// Names a communicator's lane; equal on all its members. Links of different channels are independent.
using Channel = std::uint64_t;
/// On odd channels a message may come at any time. On even ones both sides know what comes.
constexpr bool may_come_at_any_time(Channel channel) { return (channel & 1) != 0; }
/// What the sender wants to hear back when its bytes are free again.
using Token = std::uint64_t;
using Clock = std::chrono::steady_clock;

/// Where the payload of an arriving message shall go.
struct Acceptance {
  enum class Kind : std::uint8_t {
    park,    ///< nobody wants it yet: leave it where it is, resume() will ask again
    memory,  ///< copy it to `memory`, which is exactly Frame::length bytes
    views,   ///< show it piece by piece where it lies, through Sink::view
  };
  Kind kind = Kind::park;
  std::span<std::byte> memory{};
  /// How to copy what lies in memory already; null: as std::memcpy does.
  void (*copy)(void* to, const void* from, std::size_t bytes) = nullptr;
};

/// What a transport tells its user. Called only from Transport::progress(), by the thread that called it; a sink may
/// call Link::send and Link::resume from inside, nothing else. Must not throw.
class Sink {
 public:
  /// A message has begun to arrive on `from`. After `park` the same message is offered again on resume().
  virtual Acceptance arrived(Link& from, const Frame& frame) noexcept = 0;
  /// The next bytes of a message accepted as views; only valid during the call. All pieces but the last are a
  /// multiple of 64 bytes, and each begins on a 16-byte boundary.
  virtual void view(Link& from, std::span<const std::byte> piece) noexcept = 0;
  /// The accepted message is complete (also for length 0).
  virtual void received(Link& from) noexcept = 0;
  /// The payload of an earlier send may be reused. Not that the peer has it.
  virtual void sent(Link& to, Token token) noexcept = 0;
  /// The link is gone: once per link, nothing follows. Error{peer_lost} with the peer's rank, or {mismatch} for bytes
  /// that are not ours. A peer that closed on purpose (FrameKind::bye) is no failure until more is sent to it.
  virtual void failed(Link& link, const Error& reason) noexcept = 0;

 protected:
  ~Sink() = default;
};

/// One direction of a connection: from its maker to `peer` (returned by Transport::open) or from `peer` to us (first
/// seen in Sink::arrived). Messages arrive complete and in the order they were sent.
///
/// Directed links need no agreement on who connects: a sender connects at its first message and may push at once.
/// Ownership: links belong to their transport, until close_channel() or its destruction.
class Link {
 public:
  Link(int peer, Channel channel) : peer_(peer), channel_(channel) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link();

  int peer() const { return peer_; }
  Channel channel() const { return channel_; }

  /// Outgoing links. Queues the message behind earlier ones and starts it. True: done with the payload already, no
  /// sent() will follow. `payload` is borrowed until then; `frame.length` is its size.
  virtual bool send(const Frame& frame, std::span<const std::byte> payload, Token token) noexcept = 0;
  /// The same where nothing is before it and all of it can be taken now. False: nothing has happened.
  virtual bool send_at_once(const Frame&, std::span<const std::byte>) noexcept { return false; }
  /// A message of `length` bytes that is asked for may be lent: its receiver reads it in this process's memory, all of
  /// it or nothing. Always the same for that length.
  virtual bool may_lend(std::uint64_t /*length*/) const noexcept { return false; }
  /// Incoming links. A message is wanted now: offer the parked one again at the next progress(), or, where none is
  /// parked, look out for the next.
  virtual void resume() noexcept = 0;
  /// Whether somebody who waits for a message on this link alone is quicker with pull() than with progress().
  virtual bool is_pulled() const noexcept { return false; }
  /// Delivers the next piece of what has arrived; true if anything happened.
  virtual bool pull_piece(Sink&) noexcept { return false; }
  /// Takes the next message without asking the sink, if it lies there whole and its frame is `frame`, whatever the
  /// number of the operation. `to`: Frame::length bytes. Only while `nothing_there` may it be asked for again;
  /// `something_else` is for the sink: another message, one that is parked or half here, or the link's end. Called, as
  /// pull_piece(), by whoever may call progress().
  enum class Taken : std::uint8_t { taken, nothing_there, something_else };
  virtual Taken take(const FrameWords& /*frame*/, std::span<std::byte> /*to*/) noexcept {
    return Taken::something_else;
  }

  /// For the sink alone.
  void* context = nullptr;

 private:
  int peer_;
  Channel channel_;
};

/// Moves bytes between this rank and its peers. Knows nothing of elements, plans or collectives.
///
/// Threading: every call on one object comes from one thread at a time (the owner of the engine).
/// Failure:   set-up (constructors, set_peers) throws tutti::Error; the rest never throws and reports to the sink.
class Transport {
 public:
  virtual ~Transport();

  /// "shm", "tcp", "inproc".
  virtual const char* name() const = 0;
  /// What peers must know to reach this rank; opaque text, published at rendezvous.
  virtual std::string address() const = 0;
  /// Addresses by rank; an empty one cannot be reached. Called once, before open().
  virtual void set_peers(std::vector<std::string> addresses) = 0;
  /// From now on events go there. Called once, before open().
  virtual void set_sink(Sink& sink) = 0;

  /// The outgoing link to `peer` on `channel`, made now if need be; connects at the first send. What is sent to who has
  /// said bye already may cost what that one said before.
  virtual Link& open(int peer, Channel channel) = 0;
  /// An outgoing link for what may come after the peer's bye and then harms nothing: for small frames that nobody waits
  /// for, once the peer has sent something. What becomes of them the sink need not hear.
  virtual Link& open_aside(int peer, Channel channel) { return open(peer, channel); }
  /// `bytes` bytes that all `members` see (ranks, this one among them, the same order everywhere), zeros at first: made
  /// by the first of them at each call, null until they have come to this rank. They live as long as somebody holds
  /// them. `channel` is a name that nothing else has. Throws Error{system}. Only where has_boards(), and only among
  /// ranks that are reached by this transport.
  virtual std::shared_ptr<std::byte> shared_memory(Channel channel, std::span<const int> members, std::size_t bytes);
  /// A board in such memory, the same at each call; null until it has come to this rank, `with_rooms` until they have.
  /// It lasts as long as the channel, which is even.
  virtual Board* board(Channel channel, std::span<const int> members, bool with_rooms);
  virtual bool has_boards() const noexcept { return false; }
  /// Ends the sleep of `peer`, of which its board has told.
  virtual void wake(int /*peer*/, Channel) noexcept {}

  /// Says goodbye on outgoing links of `channel` once what was sent is on its way (at most until `deadline`), then
  /// destroys all its links. Messages that still arrive for it are dropped.
  virtual void close_channel(Channel channel, Clock::time_point deadline) noexcept = 0;
  /// Best effort: tells every peer of `channel` that this rank failed because of `reason`, then destroys its links.
  virtual void abort_channel(Channel channel, const Error& reason) noexcept = 0;

  /// Plays that this rank's network is gone: every connection ends without a word, none can be made any more. Like
  /// open(), not from inside progress().
  virtual void cut() noexcept = 0;

  /// Moves what can be moved without blocking. True when something happened.
  virtual bool progress() noexcept = 0;
  /// Asks to be woken through the reactor; false: there is something to do, do not sleep. Always followed by awake().
  virtual bool prepare_sleep() noexcept = 0;
  virtual void awake() noexcept = 0;
};

}  // namespace tutti::transport
