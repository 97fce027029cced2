// What a link compares when it tries both ways of copying.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/sizes.h"
#include "tests/transport/loose_ring.h"
#include "tests/transport/mesh.h"
#include "transport/memory/single_copy.h"
#include "transport/memory/slot_link.h"
#include "transport/shm/shm_transport.h"

namespace tutti::transport::testing {
namespace {

using std::chrono::microseconds;
using Accept = Acceptance::Kind;

constexpr CopyChoice::Trial mebibyte_trial =
    CopyChoice::trial_of(CopyChoice::class_of(tutti::testing::mebibyte), false);

/// Time passes only here, so that neither the machine nor other programs decide a trial.
std::chrono::nanoseconds elapsed{}, worked{};
int readings = 0;  // of the processor's clock

constexpr CopyClocks clocks{.elapsed = []() noexcept { return elapsed; },
                            .processor =
                                []() noexcept {
                                  ++readings;
                                  return worked;
                                }};

/// Where cores are shared, another rank gets this one while it copies. Where they are not, nothing needs the time of
/// the processor, which stands still.
bool is_interrupted = false;

void work(microseconds time) {
  elapsed += time;
  if (!is_interrupted) return;
  worked += time;
  elapsed += microseconds{5000};
}

/// The receiver's end of a ring in this process, where single copy takes 1.3 ms.
struct SlowToRead final : RingEndpoint {
  explicit SlowToRead(std::shared_ptr<RingMemory> memory, std::size_t areas = least_areas)
      : memory_(std::move(memory)), areas_(areas) {}
  RingMemory& ring() noexcept override { return *memory_; }
  std::shared_ptr<RingMemory> share_ring() noexcept override { return memory_; }
  std::size_t areas() const noexcept override { return areas_; }
  void wake_peer() noexcept override {}
  bool peer_left() const noexcept override { return false; }
  void cut() noexcept override {}
  bool read_peer(std::span<std::byte> to, std::uint64_t address) noexcept override {
    std::memcpy(to.data(), reinterpret_cast<const void*>(address), to.size());
    work(microseconds{1300});
    return true;
  }

 private:
  std::shared_ptr<RingMemory> memory_;
  std::size_t areas_;
};

/// Takes every message, and copies it from slots with `copy`.
struct Taker final : Sink {
  Acceptance arrived(Link&, const Frame& frame) noexcept override {
    memory.resize(frame.length);
    return {.kind = Accept::memory, .memory = memory, .copy = copy, .senders_to_root = senders_to_root};
  }
  void view(Link&, std::span<const std::byte>) noexcept override {}
  void received(Link&) noexcept override { ++messages; }
  void sent(Link&, Token) noexcept override {}
  void failed(Link&, const Error&) noexcept override {}

  void (*copy)(void* to, const void* from, std::size_t bytes) = nullptr;
  int senders_to_root = 0;
  std::vector<std::byte> memory;
  int messages = 0;
};

void copy_slowly(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  work(microseconds{100});
}

void copy_quickly(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  work(microseconds{0});
}

/// Two ranks that share cores with others.
struct Sharing {
  explicit Sharing(CopyFunction* senders_copy)
      : ring({.streaming = senders_copy, .always = true, .cores_are_shared = true, .clocks = clocks}) {
    is_interrupted = true;
    ring.memory->sample = {reinterpret_cast<std::uintptr_t>(&sample), sample};
  }

  /// Sends messages of `pieces` pieces until a trial has ended. Whether single copy is wanted then.
  bool chosen_for(std::size_t pieces) {
    constexpr std::size_t piece_size = slot_bytes / 2;
    const std::vector<std::byte> bytes = pattern(pieces * piece_size, 1);
    const Frame frame{.length = bytes.size()};
    for (int sent = 0; sent < mebibyte_trial.first + 2 * mebibyte_trial.tries; ++sent) {
      if (writer.wants_single_copy(bytes.size())) {
        REQUIRE_FALSE(writer.full());
        REQUIRE_FALSE(writer.begin_single_copy(words_of(frame), bytes));
        link.pull(taker);
      } else {
        for (std::size_t at = 0; at < bytes.size(); at += piece_size) {
          REQUIRE_FALSE(writer.full());
          const auto piece = std::span{bytes}.subspan(at, piece_size);
          const bool sleeps = at == 0 ? writer.begin(frame, piece) : writer.proceed(piece);
          REQUIRE_FALSE(sleeps);
          link.pull(taker);
          elapsed += microseconds{200};
        }
      }
      REQUIRE(taker.messages == sent + 1);
      CHECK(std::ranges::equal(taker.memory, bytes));
    }
    return writer.wants_single_copy(bytes.size());
  }

  std::uint64_t sample = 7;
  LooseRing ring;
  RingWriter& writer = ring.writer;
  Taker taker;
  InboundSlotLink link{0,
                       2,
                       std::make_unique<SlowToRead>(ring.memory),
                       std::make_shared<Areas>(),
                       CopyPolicy{.cores_are_shared = true, .clocks = clocks},
                       std::make_shared<CopyChoice>(SingleCopy::measured, true)};
};

TEST_CASE("where cores are shared, what counts is copying at both ends, not waiting for the sender") {
  struct Case {
    bool slow_sender, slow_receiver;
    int senders_to_root;
    bool wants_single_copy;
  };
  // Single copy takes 1.3 ms, and a slow copy through 16 slots 1.6 ms.
  for (const Case& one : {Case{false, false, 0, false}, Case{false, true, 0, true}, Case{true, false, 0, true},
                          Case{true, false, 1, true}, Case{true, false, 2, false}, Case{true, true, 2, true}}) {
    CAPTURE(one.slow_sender);
    CAPTURE(one.slow_receiver);
    CAPTURE(one.senders_to_root);
    Sharing ranks{one.slow_sender ? copy_slowly : copy_quickly};
    ranks.taker.copy = one.slow_receiver ? copy_slowly : copy_quickly;
    ranks.taker.senders_to_root = one.senders_to_root;
    CHECK(ranks.chosen_for(16) == one.wants_single_copy);
  }
}

TEST_CASE("where cores are shared, some pieces of a long message are timed, and stand for all") {
  Sharing ranks{copy_quickly};
  ranks.taker.copy = [](void* to, const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    work(microseconds{60});
  };
  readings = 0;
  CHECK(ranks.chosen_for(32));  // 1.92 ms
  constexpr int timed = 16;     // of each message, by both ends
  CHECK(readings <= mebibyte_trial.tries * (2 * timed + 1) * 2);
}

/// Whether single copy is wanted after a trial with a core each. The 8 slots are full before the receiver looks.
bool chosen_with_a_core_each(bool slow_sender, int senders_to_root) {
  is_interrupted = false;
  LooseRing ring{{.streaming = slow_sender ? copy_slowly : nullptr, .always = true, .clocks = clocks}};
  RingWriter& writer = ring.writer;
  const std::uint64_t sample = 7;
  ring.memory->sample = {reinterpret_cast<std::uintptr_t>(&sample), sample};
  InboundSlotLink link{0,
                       2,
                       std::make_unique<SlowToRead>(ring.memory),
                       std::make_shared<Areas>(),
                       CopyPolicy{.clocks = clocks},
                       std::make_shared<CopyChoice>(SingleCopy::measured)};
  Taker taker;
  taker.copy = copy_slowly;
  taker.senders_to_root = senders_to_root;
  constexpr std::size_t piece_size = slot_bytes / 2;
  const std::vector<std::byte> bytes = pattern(least_areas * piece_size, 1);
  const Frame frame{.length = bytes.size()};
  for (int sent = 0; sent < mebibyte_trial.first + 2 * mebibyte_trial.tries; ++sent) {
    REQUIRE(writer.has_room(least_areas));
    if (writer.wants_single_copy(bytes.size())) {
      REQUIRE_FALSE(writer.begin_single_copy(words_of(frame), bytes));
    } else {
      REQUIRE_FALSE(writer.begin(frame, std::span{bytes}.first(piece_size)));
      for (std::size_t at = piece_size; at < bytes.size(); at += piece_size)
        REQUIRE_FALSE(writer.proceed(std::span{bytes}.subspan(at, piece_size)));
    }
    link.pull(taker);
    REQUIRE(taker.messages == sent + 1);
  }
  return writer.wants_single_copy(bytes.size());
}

TEST_CASE("with a core each, the sender's copies before its message was seen count, unless messages converge") {
  struct Case {
    bool slow_sender;
    int senders_to_root;
    bool wants_single_copy;
  };
  // Single copy takes 1.3 ms; copying slowly into or out of all slots takes 0.8.
  for (const Case& one : {Case{true, 0, true}, Case{false, 0, false}, Case{true, 1, false}, Case{true, 2, false}}) {
    CAPTURE(one.slow_sender);
    CAPTURE(one.senders_to_root);
    CHECK(chosen_with_a_core_each(one.slow_sender, one.senders_to_root) == one.wants_single_copy);
  }
}

TEST_CASE("messages in areas that are used for the first time are no tries") {
  is_interrupted = false;
  for (const int senders_to_root : {0, 1}) {  // of a gather, what the sender knows of its areas does not count
    CAPTURE(senders_to_root);
    const std::shared_ptr<RingMemory> memory = private_ring<medium_areas>();
    const std::uint64_t sample = 7;
    memory->sample = {reinterpret_cast<std::uintptr_t>(&sample), sample};
    Areas areas;
    areas.add_own(memory, medium_areas);
    RingWriter writer{*memory, areas, CopyPolicy{.clocks = clocks}};
    InboundSlotLink link{0,
                         2,
                         std::make_unique<SlowToRead>(memory, medium_areas),
                         std::make_shared<Areas>(),
                         CopyPolicy{.clocks = clocks},
                         std::make_shared<CopyChoice>(SingleCopy::measured)};
    Taker taker;
    taker.senders_to_root = senders_to_root;
    const std::vector<std::byte> bytes(CopyChoice::least_bytes);  // in one area
    const CopyChoice::Trial trial = CopyChoice::trial_of(CopyChoice::class_of(bytes.size()), false);
    REQUIRE(static_cast<int>(medium_areas) > trial.first);
    for (int sent = 0; sent < static_cast<int>(medium_areas) + trial.tries; ++sent) {
      CAPTURE(sent);
      REQUIRE_FALSE(writer.wants_single_copy(bytes.size()));
      REQUIRE_FALSE(writer.full());
      REQUIRE_FALSE(writer.begin({.length = bytes.size()}, bytes));
      link.pull(taker);
    }
    CHECK(writer.wants_single_copy(bytes.size()));
  }
}

/// Ranks of which the last receives. Copies into and out of slots take time, and single copies none.
struct Converging {
  explicit Converging(bool cores_are_shared) {
    is_interrupted = cores_are_shared;
    for (int rank = 0; rank < mesh.size(); ++rank)
      if (cores_are_shared) dynamic_cast<ShmTransport&>(*mesh[rank].transport).share_cores();
  }

  /// Whether rank `from` sends the next message by single copy.
  bool uses_single_copy(int from) {
    Link& link = mesh[from].transport->open(mesh.size() - 1, 2);
    const bool is_single_copy = !mesh[from].send(link, CopyChoice::least_bytes, 1);
    const std::size_t wanted = mesh[2].recorder.messages.size() + 1;
    REQUIRE(mesh.run_until([&] { return mesh[2].recorder.messages.size() == wanted && mesh[from].all_sent(); }));
    return is_single_copy;
  }

  Kind kind{
      "shm, measured", [](const std::vector<Reactor*>& reactors, auto) {
        std::vector<std::unique_ptr<Transport>> made;
        for (Reactor* const reactor : reactors)
          made.push_back(std::make_unique<ShmTransport>(static_cast<int>(made.size()), "0123456789abcdef", *reactor,
                                                        Log{}, CopyPolicy{.plain = copy_slowly, .clocks = clocks}));
        return made;
      }};
  Mesh mesh{kind, 3};
};

TEST_CASE("where cores are shared, what one sender's messages have shown holds for all senders to this rank") {
  for (const bool cores_are_shared : {false, true}) {
    CAPTURE(cores_are_shared);
    Converging ranks{cores_are_shared};
    const int enough = static_cast<int>(medium_areas) + mebibyte_trial.first + 2 * mebibyte_trial.tries;
    bool is_single_copy = false;
    for (int sent = 0; sent < enough; ++sent) is_single_copy = ranks.uses_single_copy(0);
    CHECK(is_single_copy);
    CHECK_FALSE(ranks.uses_single_copy(1));  // its memory was never read
    CHECK(ranks.uses_single_copy(1) == cores_are_shared);
  }
}

/// A clock that is a system call, which takes as long as a copy.
std::chrono::nanoseconds read_slowly() noexcept {
  static std::chrono::nanoseconds now{};
  return now += microseconds{1};
}

TEST_CASE("where cores are shared, reading the clock is no part of the time of a copy") {
  CopyClocks slow_to_read{.elapsed = read_slowly, .processor = read_slowly};
  slow_to_read.measure_reading();
  CHECK(slow_to_read.time_of(true, [] {}) == std::chrono::nanoseconds{1});
  CHECK(slow_to_read.time_of(true, [] { read_slowly(); }) == microseconds{1});
}

}  // namespace
}  // namespace tutti::transport::testing
