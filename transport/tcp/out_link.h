#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/net/socket.h"
#include "transport/tcp/acknowledgement_check.h"
#include "transport/tcp/connecting.h"
#include "transport/tcp/frame_queue.h"
#include "transport/tcp/last_frame.h"
#include "transport/tcp/tcp_context.h"

namespace tutti::transport::tcp {

class InLink;

/// The sending end of a link: finds or makes its connections for the first message, and sends queued messages. If the
/// connections are shared, an InLink reads what the peer sends on them.
class OutLink final : public Link {
 public:
  /// A `quiet` link tells the sink nothing. It has a connection of its own, which it tries to get until say_bye(). A
  /// `courier` is the same, but ends if the peer refuses the connection: then it listens no longer, so it has gone.
  enum class Manner { normal, quiet, courier };

  OutLink(TcpContext& context, int peer, Channel channel, Manner manner = Manner::normal);
  ~OutLink() override;

  bool send(const Frame& frame, std::span<const std::byte> payload, Token token) noexcept override;
  void resume() noexcept override {}  // nothing is offered on an outgoing link

  /// Sends what the socket takes now.
  bool progress() noexcept;
  /// Sends the short messages that are to be sent together.
  void write_replies() noexcept;
  /// True: the link leaves the busy list, since progress() has nothing to do until the reactor or send() adds it again.
  bool retire() noexcept;
  /// Asks the reactor to wake this rank when progress() has something to do.
  void arm() noexcept;

  /// Gives up if nothing that was sent has been acknowledged for twice TcpContext::lost_after. Called every `pause`.
  void check_acknowledgements(Clock::time_point now, std::chrono::milliseconds pause) noexcept;

  /// Simulates a broken network.
  void cut() noexcept;

  /// Queues a bye behind all messages, and tells the sink nothing from now on. A quiet link that no peer has seen ends.
  void say_bye() noexcept;
  /// Blocks until the queue is empty, or until `deadline`; false: the latter. A link that has ended has an empty queue.
  bool flush(Clock::time_point deadline) noexcept;
  /// Whether the link has failed or the peer has left.
  bool ended() const noexcept { return state_ == State::left || state_ == State::dead; }

  // ---- For its reader
  /// The peer has said bye.
  void peer_left() noexcept;
  void peer_failed(Certainty certainty, const Error& reason) noexcept;
  void peer_lost(int error) noexcept;
  void reader_gone() noexcept { reader_ = nullptr; }
  std::uint64_t sent_bytes() const noexcept { return sent_bytes_; }

  /// Takes the connections out without closing them; empty: there are none.
  std::vector<net::Socket> release() noexcept;

 private:
  enum class State {
    idle,        ///< nothing sent yet
    expecting,   ///< the peer may connect until retry_at_
    connecting,  ///< see Connecting
    refused,     ///< tries again at retry_at_
    open,
    left,  ///< the peer has said bye, a failure only if there is more to send
    dead,
  };

  bool is_aside() const noexcept { return manner_ != Manner::normal; }
  bool busy() const noexcept;
  void make_busy() noexcept;
  std::vector<net::Socket> take_sockets() noexcept;
  void disconnect() noexcept;
  void begin() noexcept;
  bool adopt() noexcept;
  void opened() noexcept;
  void connect() noexcept;
  bool continue_connecting() noexcept;
  void connect_failed(int error) noexcept;
  bool write_first(FrameQueue::Message& message) noexcept;
  bool write() noexcept;
  bool listen() noexcept;
  int read_last_frame() noexcept;
  void refuse() noexcept;
  void write_failed(int error) noexcept;
  bool settle_doubt() noexcept;
  void lost(int error) noexcept;
  void lose(Certainty certainty, const Error& reason) noexcept;
  void give_up(Certainty certainty, const Error& reason) noexcept;

  TcpContext& context_;
  State state_ = State::idle;
  const Manner manner_;  ///< normal: it shares its connection with the link in the other direction
  bool quiet_;
  bool said_bye_ = false;
  bool on_busy_list_ = false;
  bool replies_ = false;  ///< it is on TcpContext::replies
  bool heard_ = false;    ///< on the open connection, of a link without a reader
  int doubt_ = 0;         ///< why a write failed, while the reader may still find out more
  InLink* reader_ = nullptr;
  std::optional<Connecting> connecting_;  ///< in that state
  std::vector<net::Socket> sockets_;      ///< when it is open
  Clock::time_point give_up_at_{};
  Clock::time_point retry_at_{};
  int attempts_ = 0;
  std::uint64_t sent_bytes_ = 0;
  FrameQueue queue_;
  LastFrame last_frame_;
  AcknowledgementCheck acknowledgements_;
};

}  // namespace tutti::transport::tcp
