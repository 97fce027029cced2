#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/failure/control_message.h"

namespace tutti::detail {

/// A connection for control messages in both directions. Only finish() blocks.
class ControlConnection {
 public:
  using Clock = std::chrono::steady_clock;

  /// `socket` is connected, non-blocking, and authenticated.
  explicit ControlConnection(Descriptor socket) : socket_(std::move(socket)), heard_(Clock::now()) {}

  int fd() const { return socket_.get(); }
  /// Whether the peer or the network has closed it, or the peer has sent something that is no message.
  bool ended() const { return !socket_; }
  bool has_unsent() const { return !unsent_.empty(); }
  /// When the peer last sent anything.
  Clock::time_point heard() const { return heard_; }
  /// This process could not run for a while: messages of the peer may still have to be read.
  void forgive(Clock::time_point now) { heard_ = now; }

  /// A peer that does not read loses the connection once this many bytes wait for it.
  static constexpr std::size_t most_unsent = std::size_t{1} << 20;
  /// Whether so much waits for the peer that only what it must know is added.
  bool is_behind() const { return unsent_.size() > most_unsent / 8; }
  /// Drops what ranks ask each other about calls that take long, if the peer is behind: there may be any number of such
  /// calls, and a peer that is only busy must not lose the connection for them. They are asked about again, unless
  /// they are overdue: what is said of these is dropped only if much more waits for the peer.
  void send(const ControlMessage& message);
  void write() noexcept;
  /// Appends the messages that have arrived. Those before an end are delivered before the end becomes visible.
  void read(std::vector<ControlMessage>& messages);
  void cut() noexcept;
  /// Blocks until everything is sent, or until `deadline`. Then the peer sees that nothing follows.
  void finish(Clock::time_point deadline) noexcept;

 private:
  void digest(std::vector<ControlMessage>& messages);

  Descriptor socket_;
  std::string unsent_;
  std::string arrived_;
  Clock::time_point heard_;
};

}  // namespace tutti::detail
