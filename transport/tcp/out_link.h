#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/security/handshake.h"
#include "transport/tcp/link_socket.h"
#include "transport/tcp/tcp_context.h"

namespace tutti::transport::tcp {

class InLink;

/// The sending end of a link: a connection that is found or made for the first message, and the messages that wait for
/// it. Once it is open, a reader, an InLink, reads the other direction, unless it is quiet.
class OutLink final : public Link {
 public:
  /// A `quiet` link tells the sink nothing, and has a connection of its own, which it tries to get until it is to say
  /// bye.
  enum class Manner { normal, quiet };

  OutLink(TcpContext& context, int peer, Channel channel, Manner manner = Manner::normal);
  ~OutLink() override;

  bool send(const Frame& frame, std::span<const std::byte> payload, Token token) noexcept override;
  void resume() noexcept override {}  // nothing is offered on an outgoing link

  /// Moves what can be moved now.
  bool progress() noexcept;
  /// Sends the short messages that waited for each other.
  void write_replies() noexcept;
  /// Leaves the busy list if progress() has nothing to do until the reactor or send() puts the link there again.
  bool retire() noexcept;
  /// Asks the reactor to wake this rank when progress() can do something.
  void arm() noexcept;

  /// Loses the connection if nothing of what was sent is acknowledged for twice TcpContext::lost_after. Called every
  /// `pause`.
  void check_acknowledgements(Clock::time_point now, std::chrono::milliseconds pause) noexcept;

  /// Plays a broken network.
  void cut() noexcept { net::shut_down(socket_); }

  /// Queues a bye behind what waits, and tells the sink nothing from now on. A quiet link that no peer has seen ends.
  void say_bye() noexcept;
  /// Blocks until nothing waits any more or `deadline` passes; false: the latter. A link that ended has nothing
  /// waiting.
  bool flush(Clock::time_point deadline) noexcept;
  /// Dead, or the peer has left.
  bool ended() const noexcept { return state_ == State::left || state_ == State::dead; }

  // ---- For its reader, whose last call it is
  /// The peer has said bye.
  void peer_left() noexcept;
  void peer_failed(Certainty certainty, const Error& reason) noexcept;
  void peer_lost(int error) noexcept;
  void reader_gone() noexcept { reader_ = nullptr; }

  /// Takes the connection away without closing it; empty if there is none.
  net::Socket release() noexcept;

 private:
  enum class State {
    idle,       ///< nothing sent yet
    expecting,  ///< the peer may connect until retry_at_
    connecting,
    greeting,  ///< both sides prove who they are
    securing,  ///< until the tunnel is there, if there shall be one
    refused,   ///< tries again at retry_at_
    open,
    left,  ///< the peer said bye: a failure only if there is more to send
    dead,
  };
  struct Message {
    FrameBytes header;
    std::span<const std::byte> payload;
    Token token;
    std::size_t done = 0;  ///< bytes of header and payload that are sent

    std::size_t rest() const { return frame_size + payload.size() - done; }
  };

  bool is_aside() const noexcept { return !shares_; }
  bool unsent() const noexcept { return next_ < queue_.size(); }
  bool busy() const noexcept;
  void make_busy() noexcept;
  void disconnect() noexcept;
  void begin() noexcept;
  bool adopt() noexcept;
  void opened() noexcept;
  void connect() noexcept;
  bool continue_connecting() noexcept;
  bool continue_greeting() noexcept;
  bool continue_securing() noexcept;
  void watch_socket() noexcept;
  void connect_failed(int error) noexcept;
  bool write_first(Message& message) noexcept;
  bool write() noexcept;
  void settle(std::size_t bytes) noexcept;
  bool listen() noexcept;
  int hear() noexcept;
  bool understand() noexcept;
  void refuse() noexcept;
  void write_failed(int error) noexcept;
  bool settle_doubt() noexcept;
  void lost(int error) noexcept;
  void lose(Certainty certainty, const Error& reason) noexcept;
  void give_up(Certainty certainty, const Error& reason) noexcept;

  TcpContext& context_;
  State state_ = State::idle;
  const bool shares_;  ///< its connection with the link in the other direction
  bool quiet_;
  bool said_bye_ = false;
  bool on_busy_list_ = false;
  bool replies_ = false;  ///< is on TcpContext::replies
  bool heard_ = false;    ///< the peer has written or hung up
  int doubt_ = 0;         ///< why a write failed, while the reader may still learn more
  InLink* reader_ = nullptr;
  net::Socket socket_;
  std::optional<net::Address> address_;
  Clock::time_point give_up_at_{};
  Clock::time_point retry_at_{};
  Clock::time_point unanswered_since_ = Clock::time_point::max();
  int attempts_ = 0;
  std::uint64_t sent_bytes_ = 0;

  std::optional<Handshake> handshake_;  ///< in state greeting
  std::vector<Message> queue_;          ///< from next_ on; what lies before is sent
  std::size_t next_ = 0;
  std::vector<std::byte> heard_bytes_;  ///< what the peer says backwards where there is no reader: one frame
};

}  // namespace tutti::transport::tcp
