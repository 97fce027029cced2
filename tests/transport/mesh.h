#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/sample.h"
#include "transport/reactor.h"
#include "transport/transport.h"

namespace tutti::transport::testing {

/// How long a test waits for what has to come: it only ends one that hangs, just before the watchdog would.
inline constexpr std::chrono::seconds hang_limit{tutti::testing::sanitized ? 200 : 50};

/// One row of the table of transports that must pass the conformance suite.
struct Kind {
  const char* name;
  /// A transport per reactor, all of one job, peers not set. They try as long as that to reach a peer.
  std::function<std::vector<std::unique_ptr<Transport>>(std::vector<Reactor*>, std::chrono::seconds)> make;
};
const std::vector<Kind>& all_kinds();
void for_each_kind(const std::function<void(const Kind&)>& body);

/// Bytes that tell which message they belong to and where.
std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed);

/// Takes everything, and writes down what happened. `decide` may choose otherwise per message.
class Recorder final : public Sink {
 public:
  struct Message {
    int peer;
    Channel channel;
    Frame frame;
    std::vector<std::byte> bytes;
    bool is_in_place = false;  ///< it is received in `place`
  };
  struct Failure {
    Link* link;
    int peer;
    Channel channel;
    ErrorCode code;
    int rank;
    std::uint64_t operation;
    std::string text;
  };

  Acceptance arrived(Link& from, const Frame& frame) noexcept override;
  void view(Link& from, std::span<const std::byte> piece) noexcept override;
  void received(Link& from) noexcept override;
  void sent(Link& to, Token token) noexcept override { tokens.emplace_back(&to, token); }
  void failed(Link& link, const Error& reason) noexcept override;

  std::function<Acceptance::Kind(Link&, const Frame&)> decide;
  /// Where messages in memory are received, before they are written down; empty: in memory of their own.
  std::span<std::byte> place;
  std::function<void(Link&)> on_received;

  std::vector<Message> messages;
  std::vector<Failure> failures;
  std::vector<std::pair<Link*, Token>> tokens;
  std::vector<Link*> parked;
  /// Empty while the transport keeps its side of the contract about views.
  std::string broken;

 private:
  std::map<Link*, Message> current_;
};

/// One rank.
struct Node {
  Reactor reactor;
  Recorder recorder;
  std::unique_ptr<Transport> transport;
  int rank = 0;

  /// One pass without sleeping.
  bool step();
  /// Passes, sleeping whenever nothing moves, until `done`. False: hang_limit passed first.
  bool sleep_until(const std::function<bool()>& done);
  /// Sends a pattern and keeps its bytes until the node dies.
  bool send(Link& link, std::size_t size, std::uint64_t seed, Token token = 0, FrameKind kind = FrameKind::data);
  bool send(int peer, Channel channel, std::size_t size, std::uint64_t seed, Token token = 0);

  /// Every message of send() has left.
  bool all_sent() const { return recorder.tokens.size() == queued; }

  std::vector<std::unique_ptr<std::vector<std::byte>>> payloads;
  std::size_t queued = 0;
};

/// Some ranks in one process.
class Mesh {
 public:
  Mesh(const Kind& kind, int ranks, std::chrono::seconds connect_timeout = hang_limit);
  ~Mesh();

  Node& operator[](int rank) { return *nodes_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  /// Ends a rank without a bye.
  void kill(int rank);

  /// One pass of every rank, in turn.
  bool step();
  /// Alternates in this thread until `done`. False: hang_limit passed first.
  bool run_until(const std::function<bool()>& done);
  /// Until nothing has moved for a while.
  void settle();
  /// Runs `body` for each rank in a thread of its own; rethrows the first exception.
  void in_threads(const std::function<void(Node&)>& body);

 private:
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace tutti::transport::testing
