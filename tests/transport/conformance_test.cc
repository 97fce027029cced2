// What every transport must do, run against each of them: messages. Ends and failures are in endings_test.cc.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "tests/support/allocations.h"
#include "tests/support/sample.h"
#include "tests/support/sizes.h"
#include "tests/transport/mesh.h"
#include "transport/memory/slot_ring.h"

namespace tutti::transport::testing {
namespace {

using Accept = Acceptance::Kind;

using tutti::testing::mebibyte;

/// Message `number` of the recorder is the pattern that was sent with seed `seed`.
bool is_pattern(const Recorder::Message& message, std::size_t size, std::uint64_t seed) {
  return message.frame.operation == static_cast<std::uint32_t>(seed) && message.bytes == pattern(size, seed);
}

const std::vector<std::size_t> awkward_sizes = {0,
                                                1,
                                                39,
                                                40,
                                                41,
                                                63,
                                                64,
                                                65,
                                                short_bytes,
                                                short_bytes + 1,
                                                slot_bytes - 1,
                                                slot_bytes,
                                                slot_bytes + 1,
                                                5 * slot_bytes + 7,
                                                slot_bytes* least_areas,
                                                slot_bytes* least_areas + 1,
                                                slot_bytes* slot_count,
                                                slot_bytes* slot_count + 1,
                                                mebibyte + 3};

TEST_CASE("messages of any size arrive whole, in order, in memory and as views") {
  for_each_kind([](const Kind& kind) {
    for (const Accept accept : {Accept::memory, Accept::views}) {
      Mesh mesh(kind, 2);
      Recorder& receiver = mesh[1].recorder;
      receiver.decide = [=](Link&, const Frame&) { return accept; };
      Link& link = mesh[0].transport->open(1, 7);
      for (std::size_t i = 0; i < awkward_sizes.size(); ++i) mesh[0].send(link, awkward_sizes[i], i, i);
      REQUIRE(mesh.run_until([&] { return receiver.messages.size() == awkward_sizes.size() && mesh[0].all_sent(); }));
      for (std::size_t i = 0; i < awkward_sizes.size(); ++i) {
        CAPTURE(awkward_sizes[i]);
        CHECK(is_pattern(receiver.messages[i], awkward_sizes[i], i));
        CHECK(receiver.messages[i].peer == 0);
        CHECK(receiver.messages[i].channel == 7);
      }
      CHECK(receiver.broken == "");
      CHECK(receiver.failures.empty());
      CHECK(mesh[0].recorder.failures.empty());
    }
  });
}

TEST_CASE("every field of a frame arrives") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    const std::array frames{
        Frame{.data_type = 2,
              .operation = 0xfffffffe,
              .collective = 1,
              .op = 3,
              .variable = true,
              .root = -5,
              .algorithm = 0xdeadbeef,
              .count = ~std::uint64_t{0},
              .history = 0xfeedbeef},
        Frame{.kind = FrameKind::request, .data_type = 2, .tag = -5, .elements = ~std::uint64_t{0}, .sender_slot = 7},
        Frame{.kind = FrameKind::grant, .sender_slot = 7, .receiver_slot = 0xfffffffe},
        Frame{.kind = FrameKind::grant, .sender_slot = 7, .refused = true},
        Frame{.kind = FrameKind::credit, .credit = ~std::uint64_t{0}}};
    for (const Frame& frame : frames) mesh[0].transport->open(1, 1).send(frame, {}, 0);
    REQUIRE(mesh.run_until([&] { return mesh[1].recorder.messages.size() == frames.size(); }));
    for (std::size_t i = 0; i < frames.size(); ++i) CHECK(mesh[1].recorder.messages[i].frame == frames[i]);
  });
}

TEST_CASE("many megabytes pass between threads while both sides send") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    const std::size_t size = (tutti::testing::only_a_sanitized_sample() ? 5 : 20) * mebibyte + 1;
    mesh.in_threads([&](Node& node) {
      node.recorder.decide = [&](Link&, const Frame&) { return node.rank == 0 ? Accept::memory : Accept::views; };
      node.send(1 - node.rank, 3, size, static_cast<std::uint64_t>(node.rank));
      const bool done = node.sleep_until([&] { return !node.recorder.messages.empty() && node.all_sent(); });
      CHECK_MESSAGE(done, node.rank);
    });
    for (const int rank : {0, 1}) {
      REQUIRE(mesh[rank].recorder.messages.size() == 1);
      CHECK(is_pattern(mesh[rank].recorder.messages[0], size, static_cast<std::uint64_t>(1 - rank)));
      CHECK(mesh[rank].recorder.broken == "");
    }
  });
}

TEST_CASE("thousands of small messages keep their order among all pairs of three threads") {
  for_each_kind([](const Kind& kind) {
    constexpr std::size_t count = 3000;
    Mesh mesh(kind, 3);
    mesh.in_threads([&](Node& node) {
      for (std::size_t i = 0; i < count; ++i) {
        for (int peer = 0; peer < 3; ++peer)
          if (peer != node.rank) node.send(peer, 1, i % 300, i);
        node.transport->progress();
      }
      const bool done = node.sleep_until([&] { return node.recorder.messages.size() == 2 * count && node.all_sent(); });
      CHECK_MESSAGE(done, node.rank);
    });
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<std::size_t> next(3);
      std::size_t wrong = 0;
      for (const auto& message : mesh[rank].recorder.messages) {
        const std::size_t i = next[static_cast<std::size_t>(message.peer)]++;
        if (!is_pattern(message, i % 300, i)) ++wrong;
      }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("a parked message holds the sender back, and nothing is lost or overtaken when it is resumed") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    Recorder& receiver = mesh[1].recorder;
    bool park = true;
    receiver.decide = [&](Link&, const Frame&) { return park ? Accept::park : Accept::views; };
    constexpr std::size_t count = 24;
    std::vector<Token> queued;
    for (Token i = 0; i < count; ++i)
      if (!mesh[0].send(1, 1, mebibyte + i, i, i)) queued.push_back(i);

    REQUIRE(mesh.run_until([&] { return !receiver.parked.empty(); }));
    mesh.settle();
    CHECK(receiver.parked.size() == 1);  // offered once, not in every pass
    CHECK(receiver.messages.empty());
    CHECK(mesh[0].recorder.tokens.size() < queued.size());

    receiver.parked[0]->resume();
    REQUIRE(mesh.run_until([&] { return receiver.parked.size() == 2; }));  // the same one again
    park = false;
    receiver.parked[1]->resume();
    REQUIRE(mesh.run_until([&] { return receiver.messages.size() == count; }));
    REQUIRE(mesh.run_until([&] { return mesh[0].recorder.tokens.size() == queued.size(); }));
    for (std::size_t i = 0; i < count; ++i) CHECK(is_pattern(receiver.messages[i], mebibyte + i, i));
    for (std::size_t i = 0; i < queued.size(); ++i) CHECK(mesh[0].recorder.tokens[i].second == queued[i]);
  });
}

TEST_CASE("a message may be resumed from inside the decision to park it") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    int asked = 0;
    mesh[1].recorder.decide = [&](Link& from, const Frame&) {
      if (++asked == 3) return Accept::memory;
      from.resume();
      return Accept::park;
    };
    mesh[0].send(1, 1, 100, 5);
    REQUIRE(mesh.run_until([&] { return !mesh[1].recorder.messages.empty(); }));
    CHECK(asked == 3);
  });
}

TEST_CASE("a parked channel does not stop the others") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    Recorder& receiver = mesh[1].recorder;
    bool park = true;
    receiver.decide = [&](Link& from, const Frame&) {
      return park && from.channel() == 1 ? Accept::park : Accept::memory;
    };
    for (std::uint64_t i = 0; i < 20; ++i) {
      mesh[0].send(1, 1, 2 * mebibyte, i);
      mesh[0].send(1, 2, 300'000, 100 + i);
    }
    REQUIRE(mesh.run_until([&] { return receiver.messages.size() == 20; }));
    for (std::uint64_t i = 0; i < 20; ++i) CHECK(receiver.messages[i].frame.operation == 100 + i);
    REQUIRE(receiver.parked.size() == 1);
    park = false;
    receiver.parked[0]->resume();
    REQUIRE(mesh.run_until([&] { return receiver.messages.size() == 40; }));
  });
}

TEST_CASE("a payload belongs to its owner again once send() says so or its token comes back") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    Node& sender = mesh[0];
    std::vector<std::size_t> sizes = {10, 3 * mebibyte, 0, 50'000, 2 * mebibyte, 1};
    const auto overwrite = [&](std::size_t i) {
      std::fill(sender.payloads[i]->begin(), sender.payloads[i]->end(), std::byte{0xee});
    };
    std::size_t at_once = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (!sender.send(1, 1, sizes[i], i, i)) continue;
      ++at_once;
      overwrite(i);
    }
    std::size_t seen = 0;
    REQUIRE(mesh.run_until([&] {
      for (; seen < sender.recorder.tokens.size(); ++seen) overwrite(sender.recorder.tokens[seen].second);
      return mesh[1].recorder.messages.size() == sizes.size() && at_once + seen == sizes.size();
    }));
    mesh.settle();
    CHECK(sender.recorder.tokens.size() + at_once == sizes.size());  // each token once
    for (std::size_t i = 0; i < sizes.size(); ++i) CHECK(is_pattern(mesh[1].recorder.messages[i], sizes[i], i));
  });
}

TEST_CASE("a sink may send from inside its calls") {
  for_each_kind([](const Kind& kind) {
    constexpr std::size_t rounds = 200;
    Mesh mesh(kind, 2);
    for (const int rank : {0, 1}) {
      Node& node = mesh[rank];
      Link& back = node.transport->open(1 - rank, 1);
      node.recorder.on_received = [&](Link&) {
        const std::size_t round = node.recorder.messages.size();
        if (round < rounds) node.send(back, 100'000 + round, round);
      };
    }
    mesh[0].send(1, 1, 1, 0);
    REQUIRE(mesh.run_until([&] { return mesh[1].recorder.messages.size() == rounds; }));
  });
}

TEST_CASE("a payload may be expected before its message has come, in memory and as views") {
  // Small ones, which come with the header in any case, and large ones, which do not.
  const std::vector<std::size_t> sizes{4096, 16 * 1024, 100, 8148, 65536, 65537, mebibyte, 0, 5000, 5000, 32 * 1024, 1};
  for_each_kind([&](const Kind& kind) {
    for (const bool all_at_once : {true, false}) {
      for (const bool in_place : {true, false}) {
        for (const Accept accept : {Accept::memory, Accept::views}) {
          if (in_place && accept == Accept::views) continue;
          CAPTURE(all_at_once);
          CAPTURE(static_cast<int>(accept));
          CAPTURE(in_place);
          Mesh mesh(kind, 2);
          Recorder& receiver = mesh[1].recorder;
          receiver.decide = [=](Link&, const Frame&) { return accept; };
          Link& link = mesh[0].transport->open(1, 2);
          constexpr std::byte untouched{0xee};
          std::vector<std::byte> room(mebibyte + 64, untouched);
          if (in_place) receiver.place = room;
          std::size_t next = 0;
          receiver.on_received = [&](Link& from) {
            if (++next < sizes.size()) from.expect(sizes[next], accept == Accept::memory ? room.data() : nullptr);
          };
          for (std::size_t i = 0; i < sizes.size(); ++i) {
            mesh[0].send(link, sizes[i], i);
            if (!all_at_once) REQUIRE(mesh.run_until([&] { return receiver.messages.size() > i; }));
          }
          REQUIRE(mesh.run_until([&] { return receiver.messages.size() == sizes.size() && mesh[0].all_sent(); }));
          for (std::size_t i = 0; i < sizes.size(); ++i) CHECK(is_pattern(receiver.messages[i], sizes[i], i));
          CHECK(receiver.broken == "");
          CHECK(std::ranges::all_of(std::span{room}.last(64), [](std::byte each) { return each == untouched; }));
        }
      }
    }
  });
}

TEST_CASE("a rank may send to itself") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 1);
    mesh[0].send(0, 1, mebibyte, 9);
    REQUIRE(mesh.run_until([&] { return mesh[0].recorder.messages.size() == 1; }));
    CHECK(is_pattern(mesh[0].recorder.messages[0], mebibyte, 9));
  });
}

TEST_CASE("no wake-up is lost in ten thousand ping-pongs of ranks that sleep at once") {
  for_each_kind([](const Kind& kind) {
    const std::size_t rounds = tutti::testing::only_a_sanitized_sample() ? 1'000 : 10'000;
    Mesh mesh(kind, 2);
    mesh.in_threads([&](Node& node) {
      Link& out = node.transport->open(1 - node.rank, 1);
      std::size_t got = 0;
      node.recorder.on_received = [&](Link&) {
        ++got;
        node.recorder.messages.clear();
      };
      const std::byte ball{42};
      for (std::size_t round = 0; round < rounds; ++round) {
        if (node.rank == 0) out.send({.length = 1}, {&ball, 1}, 0);
        if (!node.sleep_until([&] { return got > round; })) {
          FAIL_CHECK("rank ", node.rank, " was not woken in round ", round);
          return;
        }
        if (node.rank == 1) out.send({.length = 1}, {&ball, 1}, 0);
      }
    });
  });
}

TEST_CASE("no wake-up is lost when the sender sleeps for room and the receiver for more") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    const std::size_t count = tutti::testing::only_a_sanitized_sample() ? 100 : 400;
    mesh.in_threads([&](Node& node) {
      if (node.rank == 1) {
        CHECK(node.sleep_until([&] { return node.recorder.messages.size() == count; }));
        return;
      }
      Link& out = node.transport->open(1, 1);
      std::size_t sent = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (node.send(out, (i * 7919) % 300'000, i)) {
          ++sent;
        } else if (!node.sleep_until([&] { return sent + node.recorder.tokens.size() > i; })) {
          FAIL_CHECK("the sender was not woken after message ", i);
          return;
        }
      }
    });
    for (std::size_t i = 0; i < std::min(count, mesh[1].recorder.messages.size()); ++i)
      CHECK(is_pattern(mesh[1].recorder.messages[i], (i * 7919) % 300'000, i));
  });
}

/// Accepts into one buffer and remembers nothing.
class QuietSink final : public Sink {
 public:
  Acceptance arrived(Link&, const Frame& frame) noexcept override {
    return {Acceptance::Kind::memory, std::span(memory).first(frame.length)};
  }
  void view(Link&, std::span<const std::byte>) noexcept override {}
  void received(Link&) noexcept override { ++received_count; }
  void sent(Link&, Token) noexcept override { ++sent_count; }
  void failed(Link&, const Error&) noexcept override { failed_count += 1; }

  std::vector<std::byte> memory = std::vector<std::byte>(mebibyte);
  std::size_t received_count = 0;
  std::size_t sent_count = 0;
  std::size_t failed_count = 0;
};

TEST_CASE("a link that is warm allocates nothing") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    QuietSink sinks[2];
    for (const int rank : {0, 1}) mesh[rank].transport->set_sink(sinks[rank]);
    Link& link = mesh[0].transport->open(1, 1);
    const std::vector<std::byte> payload = pattern(mebibyte, 1);
    const auto send = [&](std::size_t count, int passes) {
      const std::size_t target = sinks[1].received_count + count;
      for (std::size_t i = 0; i < count; ++i) {
        const auto piece = std::span(payload).first(i % 10 == 0 ? payload.size() : 8 * i);
        link.send({.length = piece.size()}, piece, 0);
        for (int pass = 0; pass < passes; ++pass)
          for (const int rank : {0, 1}) mesh[rank].transport->progress();
      }
      const auto deadline = std::chrono::steady_clock::now() + hang_limit;
      while (sinks[1].received_count < target && std::chrono::steady_clock::now() < deadline)
        for (const int rank : {0, 1}) mesh[rank].transport->progress();
      return sinks[1].received_count == target;
    };
    for (int i = 0; i < 100; ++i) mesh.step();
    link.send({}, {}, 0);
    REQUIRE(mesh.run_until([&] { return sinks[1].received_count == 1; }));
    const std::size_t messages = tutti::testing::only_a_sanitized_sample() ? 200 : 1000;
    REQUIRE(send(messages, 0));  // no queue is ever longer than now
    REQUIRE(send(messages, 4));
    const std::size_t before = allocations();
    REQUIRE(send(messages, 4));
    CHECK(allocations() == before);
  });
}

}  // namespace
}  // namespace tutti::transport::testing
