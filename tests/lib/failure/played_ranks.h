#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lib/failure/control_connection.h"
#include "lib/failure/detector.h"
#include "tests/support/connected.h"
#include "transport/acceptor.h"

/// What tests of the failure detector need that play ranks themselves.
namespace tutti::detail::played {

/// Long enough that nothing in a test is known by silence.
constexpr WatchSettings never_silent{.beat = std::chrono::milliseconds{20}, .lost = std::chrono::hours{1}};

template <class Kind>
std::shared_ptr<transport::Acceptor> open_acceptor(int rank, const Secret& key) {
  return std::make_shared<transport::Acceptor>(Kind::anywhere(), transport::Credentials{key, rank});
}

/// Hears of nothing, and cannot say what its rank does.
class Nobody final : public DetectorUser {
 public:
  void suspected(const std::string&) noexcept override {}
  void failed(const Failure&) noexcept override {}
  void departed(const std::vector<int>&) noexcept override {}
  void status(const Report&, Reply) noexcept override {}
};

/// Connects as rank `from` does to the coordinator `to`.
inline ControlConnection dial(int from, int to, const std::string& address, const Secret& key,
                              FailureDetector::Clock::time_point deadline) {
  const Hello hello{.from = from, .to = to, .channel = 0, .purpose = Purpose::failure_detector};
  auto [socket, error] = testing::connect_as(hello, address, key, deadline);
  if (error != 0) throw std::runtime_error(fmt::format("rank {} is not let in by rank {}: {}", from, to, error));
  return ControlConnection{std::move(socket)};
}

/// A coordinator that lets everybody begin and does not say a word from then on.
template <class Kind>
class SilentCoordinator {
 public:
  explicit SilentCoordinator(const Secret& key, int rank = 0) : acceptor_(Kind::anywhere(), {key, rank}) {
    acceptor_.serve(Purpose::failure_detector, [this](const Hello&, net::Socket socket) {
      const std::lock_guard lock{mutex_};
      connections_.emplace_back(std::move(socket)).send({.kind = ControlMessage::Kind::ready});
      came_.notify_all();
    });
  }
  std::string address() const { return acceptor_.address(); }
  /// The next who came.
  ControlConnection take(FailureDetector::Clock::time_point deadline) {
    std::unique_lock lock{mutex_};
    REQUIRE(came_.wait_until(lock, deadline, [this] { return !connections_.empty(); }));
    ControlConnection connection = std::move(connections_.front());
    connections_.pop_front();
    return connection;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<ControlConnection> connections_;
  transport::Acceptor acceptor_;  // last: it calls until it is gone
};

/// Waits for `count` messages of a kind.
inline bool hear(ControlConnection& connection, ControlMessage::Kind kind, std::ptrdiff_t count,
                 FailureDetector::Clock::time_point deadline) {
  while (count > 0 && !connection.ended() && FailureDetector::Clock::now() < deadline) {
    pollfd query{.fd = connection.fd(), .events = POLLIN, .revents = 0};
    ::poll(&query, 1, 100);
    std::vector<ControlMessage> messages;
    connection.read(messages);
    count -= std::ranges::count(messages, kind, &ControlMessage::kind);
  }
  return count <= 0;
}

}  // namespace tutti::detail::played
