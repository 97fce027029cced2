// What every transport must do when a link ends: byes, aborts and deaths.

#include <doctest/doctest.h>

#include "tests/support/sizes.h"
#include "tests/transport/mesh.h"
#include "transport/memory/slot_ring.h"

namespace tutti::transport::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Accept = Acceptance::Kind;

using tutti::testing::mebibyte;

Clock::time_point soon() { return Clock::now() + seconds(10); }

TEST_CASE("a peer that dies is reported once, after all it had sent") {
  for_each_kind([](const Kind& kind) {
    for (const Accept accept : {Accept::memory, Accept::views}) {
      Mesh mesh(kind, 3);
      Recorder& receiver = mesh[1].recorder;
      receiver.decide = [=](Link&, const Frame&) { return accept; };
      mesh[0].send(1, 1, 1, 1);
      mesh[2].send(1, 1, 1, 1);
      REQUIRE(mesh.run_until([&] { return receiver.messages.size() == 2; }));
      for (const std::size_t size : std::initializer_list<std::size_t>{5, 100'000, 0, 300})
        mesh[0].send(1, 1, size, size);
      REQUIRE(mesh[0].all_sent());
      mesh.kill(0);
      REQUIRE(mesh.run_until([&] { return !receiver.failures.empty(); }));
      mesh.settle();
      CHECK(receiver.messages.size() == 6);
      REQUIRE(receiver.failures.size() == 1);
      CHECK(receiver.failures[0].code == ErrorCode::peer_lost);
      CHECK(receiver.failures[0].rank == 0);
      CHECK(receiver.failures[0].peer == 0);
      CHECK(mesh[2].recorder.failures.empty());

      mesh[2].send(1, 1, 10, 10);  // the others go on
      REQUIRE(mesh.run_until([&] { return receiver.messages.size() == 7; }));
    }
  });
}

TEST_CASE("a peer that dies in the middle of a message is reported, and the message is not delivered") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    bool begun = false;
    mesh[1].recorder.decide = [&](Link&, const Frame&) {
      begun = true;
      return Accept::memory;
    };
    mesh[0].send(1, 1, 64 * mebibyte, 1);
    REQUIRE(mesh.run_until([&] { return begun; }));
    mesh.kill(0);
    REQUIRE(mesh.run_until([&] { return !mesh[1].recorder.failures.empty(); }));
    CHECK(mesh[1].recorder.messages.empty());
    CHECK(mesh[1].recorder.failures[0].code == ErrorCode::peer_lost);
    CHECK(mesh[1].recorder.failures[0].rank == 0);
  });
}

TEST_CASE("the death of a peer behind a parked message is reported once the message is taken") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    Recorder& receiver = mesh[1].recorder;
    bool park = true;
    receiver.decide = [&](Link&, const Frame&) { return park ? Accept::park : Accept::memory; };
    mesh[0].send(1, 1, 1000, 1);
    mesh[0].send(1, 1, 1001, 2);
    REQUIRE(mesh.run_until([&] { return !receiver.parked.empty(); }));
    mesh.kill(0);
    mesh.settle();
    CHECK(receiver.failures.empty());
    park = false;
    receiver.parked[0]->resume();
    REQUIRE(mesh.run_until([&] { return !receiver.failures.empty(); }));
    CHECK(receiver.messages.size() == 2);
  });
}

TEST_CASE("a sender learns that its peer has died, also while it waits for room") {
  for_each_kind([](const Kind& kind) {
    for (const std::size_t size : {std::size_t{1}, 64 * mebibyte}) {
      Mesh mesh(kind, 2);
      Link& link = mesh[0].transport->open(1, 1);
      mesh[0].send(link, 1, 1);
      REQUIRE(mesh.run_until([&] { return !mesh[1].recorder.messages.empty(); }));
      mesh[1].recorder.decide = [](Link&, const Frame&) { return Accept::park; };
      mesh[0].send(link, size, 2);
      for (int i = 0; i < 5; ++i) mesh.step();
      mesh.kill(1);
      Recorder& sender = mesh[0].recorder;
      const bool told = mesh.run_until([&] {
        if (sender.failures.empty()) mesh[0].send(link, 1, 3);
        return !sender.failures.empty();
      });
      REQUIRE(told);
      mesh[0].send(link, 1, 4);
      mesh.settle();
      REQUIRE(sender.failures.size() == 1);
      CHECK(sender.failures[0].link == &link);
      CHECK(sender.failures[0].code == ErrorCode::peer_lost);
      CHECK(sender.failures[0].rank == 1);
    }
  });
}

TEST_CASE("a sleeping rank is woken by the death of a peer") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    mesh.in_threads([&](Node& node) {
      node.send(1 - node.rank, 1, 1, 1);
      const auto talked = [&] { return !node.recorder.messages.empty() && node.all_sent(); };
      CHECK_MESSAGE(node.sleep_until(talked), node.rank);
      if (node.rank == 0) {
        node.transport.reset();
      } else {
        CHECK(node.sleep_until([&] { return !node.recorder.failures.empty(); }));
      }
    });
    for (const auto& failure : mesh[1].recorder.failures) CHECK(failure.code == ErrorCode::peer_lost);
  });
}

TEST_CASE("a bye is no failure, until more is sent to a rank that has left") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    for (const int rank : {0, 1}) mesh[rank].send(1 - rank, 1, 10'000, 1);
    REQUIRE(mesh.run_until([&] { return !mesh[0].recorder.messages.empty() && !mesh[1].recorder.messages.empty(); }));
    mesh[0].send(1, 1, 100'000, 2);
    mesh[0].transport->close_channel(1, soon());
    mesh.kill(0);
    REQUIRE(mesh.run_until([&] { return mesh[1].recorder.messages.size() == 2; }));
    mesh.settle();
    CHECK(mesh[1].recorder.failures.empty());

    Link& link = mesh[1].transport->open(0, 1);
    REQUIRE(mesh.run_until([&] {
      if (mesh[1].recorder.failures.empty()) mesh[1].send(link, 100'000, 3);
      return !mesh[1].recorder.failures.empty();
    }));
    mesh.settle();
    REQUIRE(mesh[1].recorder.failures.size() == 1);
    CHECK(mesh[1].recorder.failures[0].link == &link);
    CHECK(mesh[1].recorder.failures[0].code == ErrorCode::peer_lost);
    CHECK(mesh[1].recorder.failures[0].rank == 0);
  });
}

TEST_CASE("closing a channel leaves the others alone, and it may be opened again") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    for (const Channel channel : std::initializer_list<Channel>{1, 2}) mesh[0].send(1, channel, 100, channel);
    REQUIRE(mesh.run_until([&] { return mesh[1].recorder.messages.size() == 2; }));
    for (const int rank : {0, 1}) mesh[rank].transport->close_channel(1, soon());
    mesh[0].send(1, 2, 200, 3);
    REQUIRE(mesh.run_until([&] { return mesh[1].recorder.messages.size() == 3; }));
    mesh.settle();
    for (const int rank : {0, 1}) mesh[rank].transport->open(1 - rank, 1);
    mesh[0].send(1, 1, 300, 4);
    REQUIRE(mesh.run_until([&] { return mesh[1].recorder.messages.size() == 4; }));
    for (const int rank : {0, 1}) CHECK(mesh[rank].recorder.failures.empty());
  });
}

TEST_CASE("a message for a closed channel is dropped") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    mesh[1].transport->close_channel(1, soon());
    mesh[0].send(1, 1, 100, 1);
    mesh[0].send(1, 2, 100, 2);
    REQUIRE(mesh.run_until([&] { return !mesh[1].recorder.messages.empty(); }));
    mesh.settle();
    REQUIRE(mesh[1].recorder.messages.size() == 1);
    CHECK(mesh[1].recorder.messages[0].channel == 2);
    for (const int rank : {0, 1}) CHECK(mesh[rank].recorder.failures.empty());
  });
}

TEST_CASE("closing a channel first brings what was sent on its way") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    mesh.in_threads([&](Node& node) {
      if (node.rank == 0) {
        node.send(1, 1, 5 * mebibyte, 1);
        node.send(1, 1, 10, 2);
        node.transport->close_channel(1, soon());
      } else {
        CHECK(node.sleep_until([&] { return node.recorder.messages.size() == 2; }));
      }
    });
    mesh.settle();
    CHECK(mesh[1].recorder.failures.empty());
    CHECK(mesh[1].recorder.messages[0].bytes == pattern(5 * mebibyte, 1));
  });
}

TEST_CASE("control frames arrive, and end with the channel") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    mesh[0].send(1, 1, 100, 1);
    REQUIRE(mesh.run_until([&] { return mesh[1].recorder.messages.size() == 1; }));
    mesh[1].send(mesh[1].transport->open_aside(0, 1), 10, 2);
    REQUIRE(mesh.run_until([&] { return mesh[0].recorder.messages.size() == 1; }));
    CHECK(mesh[0].recorder.messages[0].bytes == pattern(10, 2));
    mesh[1].transport->close_channel(1, soon());
    mesh.settle();
    CHECK(mesh[0].recorder.failures.empty());
  });
}

TEST_CASE("ranks that close while they still send to each other do not wait for each other") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    const auto start = Clock::now();
    mesh.in_threads([&](Node& node) {
      node.recorder.decide = [](Link&, const Frame&) { return Accept::park; };
      for (std::uint64_t i = 0; i < 3; ++i) node.send(1 - node.rank, 1, 10 * mebibyte, i);
      node.transport->close_channel(1, Clock::now() + seconds(30));
    });
    CHECK(Clock::now() - start < seconds(20));
  });
}

TEST_CASE("closing gives up at its deadline, and the peer is not told that all is well") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    mesh[0].send(1, 1, 1, 1);
    REQUIRE(mesh.run_until([&] { return !mesh[1].recorder.messages.empty(); }));
    mesh[0].send(1, 1, 64 * mebibyte, 2);
    const auto start = Clock::now();
    mesh[0].transport->close_channel(1, start + milliseconds(50));
    CHECK(Clock::now() - start >= milliseconds(50));
    CHECK(Clock::now() - start < seconds(5));
    REQUIRE(mesh.run_until([&] { return !mesh[1].recorder.failures.empty(); }));
    CHECK(mesh[1].recorder.messages.size() == 1);
    CHECK(mesh[1].recorder.failures[0].code == ErrorCode::peer_lost);
  });
}

TEST_CASE("an abort tells every peer of the channel why, whichever way they talked") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 5);
    mesh[0].send(1, 1, 10, 1);      // to 1
    mesh[2].send(0, 1, 10, 2);      // from 2
    mesh[0].transport->open(3, 1);  // and nothing yet to 3
    REQUIRE(mesh.run_until([&] { return !mesh[1].recorder.messages.empty() && !mesh[0].recorder.messages.empty(); }));
    mesh[0].transport->abort_channel(1, Error(ErrorCode::timeout, "rank 7 did not come", 7, 42));
    mesh[4].send(0, 1, 10, 3);  // too late
    REQUIRE(mesh.run_until([&] {
      return !mesh[1].recorder.failures.empty() && !mesh[2].recorder.failures.empty() &&
             !mesh[3].recorder.failures.empty() && !mesh[4].recorder.failures.empty();
    }));
    mesh.settle();
    for (const int rank : {1, 2, 3, 4}) {
      CAPTURE(rank);
      REQUIRE(mesh[rank].recorder.failures.size() == 1);
      const auto& failure = mesh[rank].recorder.failures[0];
      CHECK(failure.code == ErrorCode::timeout);
      CHECK(failure.rank == 7);
      CHECK(failure.operation == 42);
      CHECK(failure.text == "rank 7 did not come");
      CHECK(failure.peer == 0);
      CHECK(failure.channel == 1);
    }
    CHECK(mesh[0].recorder.failures.empty());
  });
}

TEST_CASE("an abort reaches a peer in the middle of a message") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    mesh[0].send(1, 1, 64 * mebibyte, 1);
    for (int i = 0; i < 5; ++i) mesh.step();
    mesh[0].transport->abort_channel(1, Error(ErrorCode::mismatch, "no", 1, 3));
    REQUIRE(mesh.run_until([&] { return !mesh[1].recorder.failures.empty(); }));
    CHECK(mesh[1].recorder.messages.empty());
  });
}

TEST_CASE("a rank that is cut off and its peers lose each other, and what it says then reaches nobody") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 3);
    mesh[0].send(1, 1, 100, 1);
    mesh[1].send(0, 1, 100, 2);
    mesh[2].send(1, 1, 100, 3);
    REQUIRE(
        mesh.run_until([&] { return mesh[1].recorder.messages.size() == 2 && mesh[0].recorder.messages.size() == 1; }));
    mesh[0].transport->cut();
    mesh[0].transport->abort_channel(1, Error(ErrorCode::mismatch, "nobody may hear this", 0, 1));
    REQUIRE(mesh.run_until([&] { return mesh[1].recorder.failures.size() == 2; }));
    for (const Recorder::Failure& failure : mesh[1].recorder.failures) {
      CHECK(failure.code == ErrorCode::peer_lost);
      CHECK(failure.rank == 0);
      CHECK(failure.text.find("nobody may hear this") == std::string::npos);
    }
    mesh[0].send(1, 2, 100, 4);
    REQUIRE(mesh.run_until([&] { return mesh[0].recorder.failures.size() == 1; }));
    CHECK(mesh[0].recorder.failures[0].rank == 1);
    mesh[2].send(1, 1, 100, 5);  // the others go on
    REQUIRE(mesh.run_until([&] { return mesh[1].recorder.messages.size() == 3; }));
  });
}

TEST_CASE("a rank that is cut off hears of it from its own links") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    mesh[0].send(1, 1, 100, 1);
    mesh[1].send(0, 1, 100, 2);
    REQUIRE(
        mesh.run_until([&] { return mesh[1].recorder.messages.size() == 1 && mesh[0].recorder.messages.size() == 1; }));
    mesh[0].transport->cut();
    mesh[0].send(1, 1, 100, 3);
    REQUIRE(mesh.run_until([&] { return mesh[0].recorder.failures.size() == 2; }));
    mesh.settle();
    CHECK(mesh[1].recorder.messages.size() == 1);
  });
}

TEST_CASE("waking a rank whose board showed that it sleeps is no failure if it has left since") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    mesh.kill(1);
    mesh[0].transport->wake(1, 2);
    mesh.settle();
    CHECK(mesh[0].recorder.failures.empty());
  });
}

TEST_CASE("a peer without an address, or gone before the first message, fails the link") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2, seconds(1));  // which TCP tries for
    Link& link = mesh[0].transport->open(1, 1);
    mesh.kill(1);
    mesh[0].send(link, 100, 1);
    REQUIRE(mesh.run_until([&] { return !mesh[0].recorder.failures.empty(); }));
    mesh[0].send(link, 100, 2);

    Link& nowhere = mesh[0].transport->open(5, 1);
    mesh[0].send(nowhere, 100, 1);
    CHECK_FALSE(mesh[0].transport->prepare_sleep());  // there is a failure to report
    mesh[0].transport->awake();
    REQUIRE(mesh[0].sleep_until([&] { return mesh[0].recorder.failures.size() == 2; }));
    mesh.settle();
    REQUIRE(mesh[0].recorder.failures.size() == 2);
    CHECK(mesh[0].recorder.failures[0].rank == 1);
    CHECK(mesh[0].recorder.failures[1].rank == 5);
    for (const auto& failure : mesh[0].recorder.failures) CHECK(failure.code == ErrorCode::peer_lost);
  });
}

}  // namespace
}  // namespace tutti::transport::testing
