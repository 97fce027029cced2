#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/net/socket.h"
#include "transport/tcp/read_ahead.h"
#include "transport/tcp/striping.h"
#include "transport/tcp/tcp_context.h"

namespace tutti::transport::tcp {

class OutLink;

/// The receiving end of a link: one direction of connections whose peer has given its proof. In the other direction a
/// `writer` may send. It reads the connections in turn, since the bytes are dealt to them so.
class InLink final : public Link {
 public:
  InLink(TcpContext& context, int peer, Channel channel, std::vector<net::Socket> sockets, OutLink* writer = nullptr);
  ~InLink() override;

  /// Incoming links send nothing.
  bool send(const Frame&, std::span<const std::byte>, Token) noexcept override { return false; }
  void resume() noexcept override;
  void expect(std::size_t length, std::byte* memory) noexcept override;

  /// Reads what has come, and tells the sink.
  bool progress() noexcept;
  /// Number of passes in a row that found nothing.
  int misses() const noexcept { return misses_; }
  /// Whether the sink waits for a message.
  bool wanted() const noexcept { return wanted_ > 0 || phase_ != Phase::header || may_come_at_any_time(channel()); }
  bool is_over() const noexcept { return phase_ == Phase::over; }  ///< no messages follow
  /// Whether there is nothing to try until the reactor or resume() makes the link hot again.
  bool idle() const noexcept { return is_over() || (phase_ == Phase::offered && !offer_again_); }
  void cool() noexcept { hot_ = false; }

  /// Whether a writer may still come.
  bool is_unshared() const noexcept { return writer_ == nullptr && !sockets_.empty() && !is_over(); }
  bool has_writer() const noexcept { return writer_ != nullptr; }
  /// Other descriptors of the connections, for `writer`; empty: the system has no more.
  std::vector<net::Socket> share(OutLink& writer) noexcept;
  void part() noexcept { writer_ = nullptr; }  ///< the writer has gone
  /// Drops what has come, within bounds, so that the peer can send the rest. No messages follow.
  void drain() noexcept;

  /// Ends because another link from this peer has failed, as the sink knows. Only the writer must be told.
  void follow(const Error& reason) noexcept;
  /// Simulates a broken network.
  void cut() noexcept {
    for (const net::Socket& socket : sockets_) net::shut_down(socket);
  }
  /// Stops reading. Without a writer, sends `closing_message` (a whole bye or abort) to the sender and closes the
  /// connections.
  void dismiss(std::span<const std::byte> closing_message) noexcept;

 private:
  enum class Phase {
    header,   ///< between messages
    offered,  ///< a message that the sink has parked
    memory,   ///< its payload goes to memory_
    views,    ///< its payload goes to the sink through the chunk
    abort,    ///< the text of an abort
    over,     ///< the peer has said bye, or the link has failed
  };

  void warm() noexcept;
  bool has_replied() const noexcept;
  void acknowledge() noexcept;
  void watch() noexcept;
  void disconnect() noexcept;
  bool digest() noexcept;
  bool digest_and_reply() noexcept;
  void begin_message() noexcept;
  void offer() noexcept;
  void finish() noexcept;
  net::Moved read() noexcept;
  net::Moved read_ahead() noexcept;
  net::Moved read_expected() noexcept;
  void take_early_bytes() noexcept;
  void show(std::span<std::byte> here) noexcept;
  net::Moved read_memory() noexcept;
  net::Moved read_views() noexcept;
  net::Moved read_pieces(std::span<std::byte>& first, std::span<std::byte> second) noexcept;
  void silence() noexcept;
  void lost(int error) noexcept;
  void lose(Certainty certainty, const Error& reason) noexcept;

  TcpContext& context_;
  std::vector<net::Socket> sockets_;  ///< empty: they are closed
  const Striping striping_;
  std::size_t turn_ = 0;        ///< the connection that brings the next byte
  std::uint64_t position_ = 0;  ///< of the next byte among all of the link
  std::uint32_t watched_ = 0;   ///< a bit for each connection that the reactor watches
  std::uint32_t resting_ = 0;   ///< and for those that do not wake this rank before it is their turn
  OutLink* writer_;
  Phase phase_ = Phase::header;
  bool hot_ = false;
  bool offer_again_ = false;
  bool unused_ = true;  ///< no message has begun; if there is a writer, its failure counts for this link
  int misses_ = 0;
  int wanted_ = 1;  ///< messages that resume() asked for, or the reactor announced, and that have not been received
  Frame frame_;
  std::span<std::byte> memory_;           ///< where the missing part of the message belongs
  std::uint64_t rest_ = 0;                ///< payload bytes still missing
  std::size_t expected_ = 0;              ///< bytes of the next payload, if that is known and worth while
  std::byte* expected_memory_ = nullptr;  ///< where it belongs; null: it will be taken as views
  std::span<std::byte> early_;            ///< where payload has been read together with its header
  std::uint64_t received_bytes_ = 0;
  int unacknowledged_ = 1;  ///< messages that no message of this rank has acknowledged; the first is the peer's proof
  std::uint64_t sent_before_ = 0;  ///< by writer_, when the last message had come
  ReadAhead ahead_;
};

}  // namespace tutti::transport::tcp
