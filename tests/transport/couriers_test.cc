// TCP: aborts on connections of their own, and peers that do not answer them.

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/transport/tcp_pair.h"

namespace tutti::transport::testing {
namespace {

using namespace std::chrono_literals;

const Error abort_reason{ErrorCode::timeout, "rank 7 did not come", 7, 42};

/// Rank 1 has links to rank 0, whose connections nobody accepts, and to rank 2.
struct Trio {
  Trio() {
    const std::vector<std::string> addresses = {deaf.address(), aborting->transport->address(),
                                                told->transport->address()};
    aborting->transport->set_peers(addresses);
    told->transport->set_peers(addresses);
  }

  /// Aborts as many channels, on which there are links to both.
  void abort_channels(Channel count) {
    for (Channel channel = 1; channel <= count; ++channel) {
      for (const int peer : {0, 2}) aborting->transport->open(peer, channel);
      aborting->transport->abort_channel(channel, abort_reason);
    }
  }
  bool is_told(std::size_t count) {
    return told->sleep_until([&] { return told->recorder.failures.size() >= count; });
  }

  RawListener deaf;
  std::unique_ptr<Node> aborting = make_node(1);
  std::unique_ptr<Node> told = make_node(2);
};

TEST_CASE("aborts of many channels wait for a peer that does not answer no longer than one does") {
  bool at_once = false;
  for (int attempt = 0; attempt < 5 && !at_once; ++attempt) {  // the machine may be busy
    Trio ranks;
    const auto start = Clock::now();
    ranks.abort_channels(200);
    at_once = Clock::now() - start < 1s;  // at 10 ms each it would take 2 s
  }
  CHECK(at_once);
}

TEST_CASE("a rank that ends tells a peer of its aborts although another one does not answer") {
  constexpr Channel channels = 5;
  Trio ranks;
  ranks.abort_channels(channels);
  ranks.aborting.reset();
  REQUIRE(ranks.is_told(channels));
  CHECK(ranks.told->recorder.failures.size() == channels);
  for (const Recorder::Failure& failure : ranks.told->recorder.failures) {
    CHECK(failure.code == ErrorCode::timeout);
    CHECK(failure.rank == 7);
    CHECK(failure.text == "rank 7 did not come");
  }
}

TEST_CASE("a rank that ends does not wait for a peer that listens no longer") {
  bool at_once = false;
  for (int attempt = 0; attempt < 5 && !at_once; ++attempt) {  // the machine may be busy
    Trio ranks;
    auto& aborting = *ranks.aborting->transport;
    aborting.open(2, 1);
    ranks.told.reset();
    aborting.abort_channel(1, abort_reason);
    const auto start = Clock::now();
    ranks.aborting.reset();
    at_once = Clock::now() - start < 500ms;  // a courier has 1 s
  }
  CHECK(at_once);
}

}  // namespace
}  // namespace tutti::transport::testing
