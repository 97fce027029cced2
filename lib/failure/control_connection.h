#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/failure/control_message.h"

namespace tutti::detail {

/// A connection on which messages travel both ways. Only flush() blocks.
class ControlConnection {
 public:
  using Clock = std::chrono::steady_clock;

  /// `socket`: connected, non-blocking, authenticated.
  explicit ControlConnection(Descriptor socket) : socket_(std::move(socket)), heard_(Clock::now()) {}

  int fd() const { return socket_.get(); }
  /// Gone: closed by the peer or the network, or it said something that is no message.
  bool ended() const { return !socket_; }
  bool has_unsent() const { return !unsent_.empty(); }
  /// When the peer last said anything.
  Clock::time_point heard() const { return heard_; }
  /// This process itself could not listen for a while: what the peer said meanwhile has yet to be read.
  void forgive(Clock::time_point now) { heard_ = now; }

  /// A peer that does not read loses the connection once this much waits for it.
  static constexpr std::size_t most_unsent = std::size_t{1} << 20;
  void send(const ControlMessage& message) noexcept;
  void write() noexcept;
  /// Appends what has arrived to `messages`. What came before an end is there when the end shows.
  void read(std::vector<ControlMessage>& messages) noexcept;
  void cut() noexcept;
  /// Blocks until all is sent, or `deadline`.
  void flush(Clock::time_point deadline) noexcept;

 private:
  void digest(std::vector<ControlMessage>& messages) noexcept;

  Descriptor socket_;
  std::string unsent_;
  std::string arrived_;
  Clock::time_point heard_;
};

}  // namespace tutti::detail
