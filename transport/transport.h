#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/descriptor.h"
#include "transport/frame.h"
#include "tutti/error.h"

namespace tutti::transport {

class Board;
enum class BoardPart : std::uint8_t;
class Link;

/// Identifies a communicator's set of links; equal on all its members. Links of different channels are independent.
using Channel = std::uint64_t;
/// On odd channels a message may come at any time. On even ones the receiver knows which message comes next.
constexpr bool may_come_at_any_time(Channel channel) { return (channel & 1) != 0; }
/// Passed back to the sender in sent().
using Token = std::uint64_t;
using Clock = std::chrono::steady_clock;

/// Where the payload of an arriving message goes.
struct Acceptance {
  enum class Kind : std::uint8_t {
    park,    ///< not wanted yet: leave it in place, resume() offers it again
    memory,  ///< copy it to `memory`, which is exactly Frame::length bytes
    views,   ///< pass it piece by piece, in place, to Sink::view
  };
  Kind kind = Kind::park;
  std::span<std::byte> memory{};
  /// How to copy data that already lie in memory; null: as std::memcpy does.
  void (*copy)(void* to, const void* from, std::size_t bytes) = nullptr;
  /// How many ranks send to this one, if it is the root of a call and sends nothing, as in a gather; else 0. What they
  /// do side by side takes no time of the call; what the root copies does (CopyChoice).
  int senders_to_root = 0;
};

/// Receives the events of a transport. Called only from Transport::progress() and Link::pull_piece(), by the thread
/// that called it. In these callbacks a sink may call Link::send, Link::resume, Link::expect, Transport::open and
/// Transport::open_aside, nothing else. Must not throw.
class Sink {
 public:
  /// A message has begun to arrive on `from`. After `park`, resume() makes the link offer the same message again.
  virtual Acceptance arrived(Link& from, const Frame& frame) noexcept = 0;
  /// The next bytes of a message accepted as views; valid only during the call. All pieces but the last are a multiple
  /// of 64 bytes, and each begins on a 16-byte boundary.
  virtual void view(Link& from, std::span<const std::byte> piece) noexcept = 0;
  /// The accepted message is complete (also for length 0).
  virtual void received(Link& from) noexcept = 0;
  /// The payload of an earlier send may be reused. (The peer may not have received it yet.)
  virtual void sent(Link& to, Token token) noexcept = 0;
  /// The link is gone: reported once per link, and nothing follows. Error{peer_lost} with the peer's rank, or
  /// {mismatch} for invalid bytes. A peer that closed on purpose (FrameKind::bye) is no failure until more is sent to
  /// it.
  virtual void failed(Link& link, const Error& reason) noexcept = 0;

 protected:
  ~Sink() = default;
};

/// One direction of a connection: from this rank to `peer` (returned by Transport::open) or from `peer` to this rank
/// (first seen in Sink::arrived). Messages arrive complete and in the order they were sent.
///
/// Directed links need no agreement on who connects: a sender connects at its first message and may send at once.
/// Ownership: links belong to their transport, until close_channel() or its destruction.
class Link {
 public:
  Link(int peer, Channel channel) : peer_(peer), channel_(channel) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link();

  int peer() const { return peer_; }
  Channel channel() const { return channel_; }

  /// Outgoing links. Queues the message behind earlier ones and starts it. True: the payload is not needed any more,
  /// and sent() will not be called. Otherwise `payload` is borrowed until sent(); `frame.length` is its size.
  virtual bool send(const Frame& frame, std::span<const std::byte> payload, Token token) noexcept = 0;
  /// The same if no message is queued and all of this one can be taken now; the payload is not needed any more. False:
  /// nothing has happened.
  virtual bool try_send(const FrameWords& /*frame*/, std::span<const std::byte> /*payload*/) noexcept { return false; }
  /// The same for a sender that can wait, if the receiver wants to read a message of that length from its memory.
  /// `payload` is borrowed until is_returned(). A caller that cannot ask until then calls await_return() instead, and
  /// `payload` is borrowed until sent(). Meanwhile it must not call progress().
  virtual bool try_lend(const FrameWords& /*frame*/, std::span<const std::byte> /*payload*/) noexcept { return false; }
  virtual bool is_returned() noexcept { return true; }
  virtual void await_return(Token /*token*/) noexcept {}
  /// Single copy is possible for a message of `length` bytes that is requested or given to try_lend(): the receiver
  /// reads it from this process's memory, as a whole. The answer is always the same for a length.
  virtual bool may_lend(std::uint64_t /*length*/) const noexcept { return false; }
  /// The sender of a longer message should ask the receiver first, even if the receiver could keep the message until it
  /// is wanted.
  virtual std::uint64_t longest_unasked() const noexcept { return std::uint64_t{64} * 1024; }
  /// Incoming links. A message is wanted now: offer the parked one again at the next progress(); if none is parked,
  /// look for the next.
  virtual void resume() noexcept = 0;
  /// The payload of the next message has `length` bytes and belongs in `memory`, or will be taken as views if that is
  /// null. This replaces what was expected before, and holds for one message. The link may write to `memory` before it
  /// knows which message has come, until it has been received or the link is destroyed. If the sink parks a message
  /// although one is expected, the link may have lost some of it, and must not be asked for it again.
  virtual void expect(std::size_t /*length*/, std::byte* /*memory*/) noexcept {}
  /// A thread that waits for a message on this link alone is faster with pull_piece() than with progress().
  virtual bool is_pulled() const noexcept { return false; }
  /// Delivers the next piece of what has arrived; true if anything happened.
  virtual bool pull_piece(Sink&) noexcept { return false; }
  /// Takes the next message without asking the sink, if it has arrived and its frame is `frame`. `to` has Frame::length
  /// bytes; `senders_to_root`: see Acceptance. After `nothing_there` the caller may ask again. `begun`: the rest of the
  /// message is late; it will go to `to`, and the sink learns of the message when it is complete. `something_else` is
  /// for the sink: another message, one that is parked or incomplete, or the link's end. Like pull_piece(), called only
  /// by a thread that may call progress().
  enum class Taken : std::uint8_t { taken, nothing_there, something_else, begun };
  virtual Taken take(const FrameWords& /*frame*/, std::span<std::byte> /*to*/, int /*senders_to_root*/) noexcept {
    return Taken::something_else;
  }

  /// For use by the sink.
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
  /// What peers need in order to reach this rank; opaque text, published at rendezvous.
  virtual std::string address() const = 0;
  /// Addresses by rank; a rank with an empty one cannot be reached. Called once, before open().
  virtual void set_peers(std::vector<std::string> addresses) = 0;
  /// Receives all events from now on. Called once, before open().
  virtual void set_sink(Sink& sink) = 0;

  /// The outgoing link to `peer` on `channel`, made now if necessary; it connects at the first send. Sending to a peer
  /// that has said bye may discard what that peer sent before.
  virtual Link& open(int peer, Channel channel) = 0;
  /// An outgoing link for small frames that may come after the peer's bye and do no harm then. No rank waits for them,
  /// and the peer must have sent something before. The sink need not be told of their fate.
  virtual Link& open_aside(int peer, Channel channel) { return open(peer, channel); }
  /// What `peer` sent before it left may still be on its way: a link from it has neither brought a bye nor failed.
  /// Where nothing stays on its way for long, it is always false.
  virtual bool may_bring_more(int /*peer*/, Channel) const noexcept { return false; }
  /// `bytes` bytes, initially zero, that all `members` map (ranks, this one among them, in the same order on all). The
  /// first member makes them at each call; the others get null until they have arrived. They exist while a rank holds
  /// them. No other memory may use the name `channel`. Throws Error{system}. Only if has_boards(), and only among ranks
  /// that this transport reaches.
  virtual std::shared_ptr<std::byte> shared_memory(Channel channel, std::span<const int> members, std::size_t bytes);
  /// Hands a file descriptor to `peer`, which takes it under the same name. Only where shared_memory() works, whose
  /// names these share; a rank gets one descriptor under a name. Throws Error{system}.
  virtual void give(int peer, Channel name, const Descriptor& descriptor);
  /// What `peer` has given under that name; empty until it has arrived. Throws Error{system} if this process had no
  /// room for it.
  virtual Descriptor take(int peer, Channel name);
  /// A board in such memory, the same one at each call; null until it has arrived, and until the part has that `with`
  /// names. It lasts as long as the channel, which is even.
  virtual Board* board(Channel channel, std::span<const int> members, BoardPart with);
  virtual bool has_boards() const noexcept { return false; }
  /// Wakes `peer`, whose board shows that it sleeps.
  virtual void wake(int /*peer*/, Channel) noexcept {}

  /// Sends a bye on the outgoing links of `channel` once everything was sent (at most until `deadline`), then destroys
  /// all its links. Messages that still arrive for it are dropped.
  virtual void close_channel(Channel channel, Clock::time_point deadline) noexcept = 0;
  /// Best effort: tells every peer of `channel` that this rank failed because of `reason`, then destroys its links.
  virtual void abort_channel(Channel channel, const Error& reason) noexcept = 0;

  /// Fault injection: this rank's network fails. Every connection ends without notice, and none can be made any more.
  /// Not to be called inside progress().
  virtual void cut() noexcept = 0;

  /// Moves what can be moved without blocking. True if something happened.
  virtual bool progress() noexcept = 0;
  /// Prepares to be woken through the reactor. False: there is something to do, do not sleep. It may be called twice
  /// (transport/sleep.h), and is always followed by awake().
  virtual bool prepare_sleep() noexcept = 0;
  virtual void awake() noexcept = 0;
};

}  // namespace tutti::transport
