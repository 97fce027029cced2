// The ring of slots and the links on it, from one side at a time: what the other side is, or pretends to be, is up to
// the test.

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "tests/support/allocations.h"
#include "tests/transport/loose_ring.h"
#include "tests/transport/mesh.h"
#include "transport/memory/slot_link.h"

namespace tutti::transport::testing {
namespace {

using Accept = Acceptance::Kind;

TEST_CASE("a ring holds as many messages as it has slots, and reuses each when it is released") {
  LooseRing ring;
  std::uint32_t sent = 0;
  std::uint32_t got = 0;
  for (int round = 0; round < 5; ++round) {
    for (; !ring.writer.full(); ++sent) CHECK_FALSE(ring.put(pattern(sent, sent), sent));
    CHECK(sent - got == least_areas);
    for (std::size_t i = 0; i < least_areas - 3; ++i, ++got) {
      REQUIRE(ring.reader.ready());
      const auto frame = ring.reader.frame();
      REQUIRE(frame);
      CHECK(frame->operation == got);
      const auto piece = ring.reader.piece(frame->length, frame->length);
      CHECK(std::vector(piece.begin(), piece.end()) == pattern(got, got));
      CHECK_FALSE(ring.reader.release());
    }
  }
  while (ring.reader.ready()) {
    ++got;
    CHECK_FALSE(ring.reader.release());
  }
  CHECK(got == sent);
}

TEST_CASE("a ring with the most areas holds twice as many messages, and has an area for each") {
  for (const std::size_t areas : ring_sizes) {
    for (const std::size_t length : {std::size_t{long_bytes}, std::size_t{long_bytes + 1}}) {
      Areas own;
      const std::shared_ptr<RingMemory> memory = private_ring<most_areas>();
      RingWriter writer{*memory, with_own(own, memory, areas)};
      std::size_t sent = 0;
      for (; !writer.full(); ++sent) REQUIRE_FALSE(writer.begin(frame_with(length), pattern(1000, 1)));
      CHECK(sent == (areas == most_areas ? 16 : 8));
    }
  }
}

TEST_CASE("a short message lies beside its flag, a longer one in a slot of its own") {
  LooseRing ring;
  const auto offset = [&](std::size_t size) {
    CHECK_FALSE(ring.put(pattern(size, 1)));
    const auto* where = ring.reader.piece(size, size).data();
    CHECK_FALSE(ring.reader.release());
    return static_cast<std::size_t>(where - reinterpret_cast<std::byte*>(ring.memory.get()));
  };
  for (std::size_t i = 0; i < slot_count; ++i) CHECK(offset(short_bytes) < offsetof(RingMemory, from_sender));
  for (std::size_t i = 0; i < least_areas; ++i) {
    const std::size_t where = offset(short_bytes + 1);
    CHECK(where >= sizeof(RingMemory));
    CHECK((where - sizeof(RingMemory)) % area_bytes(least_areas) == 0);
  }
}

TEST_CASE("only who raised its alarm is woken, and once") {
  LooseRing ring;
  CHECK_FALSE(ring.put(pattern(1, 1)));
  CHECK_FALSE(ring.reader.release());
  CHECK(ring.reader.arm());
  CHECK(ring.put(pattern(1, 1)));
  CHECK_FALSE(ring.put(pattern(1, 1)));
  CHECK_FALSE(ring.reader.arm());  // there is something already
  ring.reader.disarm();
  CHECK_FALSE(ring.put(pattern(1, 1)));
}

TEST_CASE("a sender that waits for room is woken when it has as much as it asked for") {
  LooseRing ring;
  for (std::size_t asked = 1; asked <= least_areas; ++asked) {
    while (!ring.writer.full()) CHECK_FALSE(ring.put(pattern(1, 1)));
    CHECK(ring.writer.arm(asked));
    for (std::size_t freed = 1; freed < asked; ++freed) CHECK_FALSE(ring.reader.release());
    CHECK(ring.reader.release());
    CHECK_FALSE(ring.writer.arm(asked));
    ring.writer.disarm();
    while (ring.reader.ready()) CHECK_FALSE(ring.reader.release());
  }
}

TEST_CASE("a receiver that counts nonsense gets no slot to overflow") {
  LooseRing ring;
  while (!ring.writer.full()) CHECK_FALSE(ring.put(pattern(1, 1)));
  for (const std::uint64_t nonsense : {~std::uint64_t{0}, std::uint64_t{1} << 40, std::uint64_t{least_areas + 1}}) {
    ring.memory->freed.store(nonsense);
    CHECK(ring.writer.full());
  }
}

// ---- Links -----------------------------------------------------------------------------------------------------

struct Receiving {
  LooseRing ring;
  LooseEndpoint* endpoint = new LooseEndpoint(ring.memory);
  std::shared_ptr<int> reads = endpoint->reads;
  std::shared_ptr<CopyChoice> never = std::make_shared<CopyChoice>(SingleCopy::never);
  InboundSlotLink link{3, 1, std::unique_ptr<RingEndpoint>(endpoint), std::make_shared<Areas>(), {}, never};
  Recorder recorder;

  bool pull() { return link.pull(recorder); }
  void leave_peer() {
    endpoint->left = true;
    link.attend();
    while (pull()) {
    }
  }
};

TEST_CASE("bytes that are no frame fail the link as a mismatch, and nothing follows") {
  Receiving side;
  CHECK_FALSE(side.ring.put({}));
  side.ring.memory->heads[0].words[0] ^= 1;
  CHECK_FALSE(side.ring.put({}));
  CHECK(side.pull());
  CHECK_FALSE(side.pull());
  side.link.attend();
  CHECK_FALSE(side.pull());
  REQUIRE(side.recorder.failures.size() == 1);
  CHECK(side.recorder.failures[0].code == ErrorCode::mismatch);
  CHECK(side.recorder.failures[0].rank == 3);
  CHECK(side.recorder.messages.empty());
  CHECK(side.link.arm());
}

TEST_CASE("an absurd length is refused before anybody asks for memory") {
  Receiving side;
  side.recorder.decide = [](Link&, const Frame&) { return Accept::views; };
  CHECK_FALSE(side.ring.writer.begin(frame_with(max_length + 1), pattern(slot_bytes, 1)));
  CHECK(side.pull());
  REQUIRE(side.recorder.failures.size() == 1);
  CHECK(side.recorder.failures[0].code == ErrorCode::mismatch);
}

TEST_CASE("an address in place of a message is refused where nobody asked for one, and not read") {
  Receiving side;
  const std::vector<std::byte> bytes = pattern(CopyChoice::least_bytes, 1);
  CHECK_FALSE(side.ring.writer.begin_single_copy(words_of({.length = bytes.size()}), bytes));
  CHECK(side.pull());
  REQUIRE(side.recorder.failures.size() == 1);
  CHECK(side.recorder.failures[0].code == ErrorCode::mismatch);
  CHECK(side.recorder.failures[0].rank == 3);
  CHECK(side.recorder.failures[0].text.find("single-copy message that was not asked for") != std::string::npos);
  CHECK(*side.reads == 0);
  CHECK(side.recorder.messages.empty());
}

/// Is told only of messages that it was not asked about.
struct Told final : Sink {
  Acceptance arrived(Link&, const Frame&) noexcept override { return {}; }
  void view(Link&, std::span<const std::byte>) noexcept override {}
  void received(Link&) noexcept override { ++messages; }
  void sent(Link&, Token) noexcept override {}
  void failed(Link&, const Error&) noexcept override {}

  int messages = 0;
};

TEST_CASE("a message is taken without the sink if it is the next, whole, and just as expected") {
  using Taken = Link::Taken;
  constexpr Frame frame{.kind = FrameKind::eager, .data_type = 5, .length = 8, .tag = 3, .elements = 2};
  Receiving side;
  std::vector<std::byte> to(8);
  CHECK(side.link.take(words_of(frame), to, 0) == Taken::nothing_there);
  REQUIRE_FALSE(side.ring.writer.begin(frame, pattern(8, 1)));
  std::vector<Frame> others(6, frame);
  others[0].kind = FrameKind::bulk, others[1].data_type = 4, others[2].tag = 4, others[3].checksum = 1;
  others[4].elements = 1, others[5].length = 9;
  for (const Frame& other : others) CHECK(side.link.take(words_of(other), to, 0) == Taken::something_else);
  CHECK(side.link.take(words_of(frame), to, 0) == Taken::taken);
  CHECK(to == pattern(8, 1));

  Told told;
  Frame longer = frame;  // than a piece
  constexpr std::size_t piece = full_piece(slot_bytes, least_areas);
  longer.length = slot_bytes;
  to.resize(longer.length);
  const auto bytes = pattern(slot_bytes, 2);
  const auto first = std::span{bytes}.first(piece), second = std::span{bytes}.subspan(piece);
  REQUIRE_FALSE(side.ring.writer.begin(longer, first));
  REQUIRE_FALSE(side.ring.writer.proceed(second));
  CHECK(side.link.take(words_of(longer), to, 0) == Taken::taken);
  CHECK(to == bytes);

  std::ranges::fill(to, std::byte{});
  REQUIRE_FALSE(side.ring.writer.begin(longer, first));
  CHECK(side.link.take(words_of(longer), to, 0) == Taken::begun);
  CHECK(side.link.take(words_of(longer), to, 0) == Taken::something_else);  // in the middle of it
  CHECK(told.messages == 0);
  REQUIRE_FALSE(side.ring.writer.proceed(second));
  CHECK(side.link.pull(told));
  CHECK(told.messages == 1);
  CHECK(to == bytes);
}

TEST_CASE(
    "a sender that sleeps until there is room is woken by a receiver that takes pieces, even if more are missing") {
  using Taken = Link::Taken;
  constexpr std::size_t pieces = least_areas + 3, piece_size = slot_bytes / 2;
  const Frame frame{.kind = FrameKind::eager, .length = pieces * piece_size};
  Receiving side;
  const auto bytes = pattern(pieces * piece_size, 1);
  const auto piece = [&](std::size_t i) { return std::span{bytes}.subspan(i * piece_size, piece_size); };
  REQUIRE_FALSE(side.ring.writer.begin(frame, piece(0)));
  for (std::size_t i = 1; i < least_areas; ++i) REQUIRE_FALSE(side.ring.writer.proceed(piece(i)));
  CHECK(side.ring.writer.arm(least_areas / 2));
  std::vector<std::byte> to(bytes.size());
  CHECK(side.link.take(words_of(frame), to, 0) == Taken::begun);
  CHECK(side.endpoint->wakes == 1);

  REQUIRE(side.ring.writer.has_room(pieces - least_areas));
  for (std::size_t i = least_areas; i < pieces; ++i) REQUIRE_FALSE(side.ring.writer.proceed(piece(i)));
  Told told;
  CHECK(side.link.pull(told));
  CHECK(told.messages == 1);
  CHECK(to == bytes);
  CHECK(side.endpoint->wakes == 1);  // it asked once
}

TEST_CASE("a sender that leaves while its message is taken fails the link, which says how much had come") {
  for (const bool aborts : {true, false}) {
    CAPTURE(aborts);
    const Frame frame{.kind = FrameKind::eager, .length = slot_bytes};
    Receiving side;
    REQUIRE_FALSE(side.ring.writer.begin(frame, pattern(full_piece(slot_bytes, least_areas), 1)));
    std::vector<std::byte> to(slot_bytes);
    CHECK(side.link.take(words_of(frame), to, 0) == Link::Taken::begun);
    if (aborts) leave(side.ring.memory->from_sender, Error(ErrorCode::timeout, "too late", 5, 6));
    side.leave_peer();
    REQUIRE(side.recorder.failures.size() == 1);
    CHECK(side.recorder.failures[0].peer == 3);
    CHECK(side.recorder.failures[0].rank == (aborts ? 5 : 3));
    if (!aborts) CHECK(side.recorder.failures[0].text.find("32768 of 65536 bytes") != std::string::npos);
    CHECK(side.recorder.messages.empty());
  }
}

TEST_CASE("an abort overtakes a parked message, a death does not") {
  for (const bool aborts : {true, false}) {
    CAPTURE(aborts);
    Receiving side;
    side.recorder.decide = [](Link&, const Frame&) { return Accept::park; };
    CHECK_FALSE(side.ring.put({}));
    CHECK(side.pull());
    CHECK(side.recorder.parked.size() == 1);
    if (aborts) leave(side.ring.memory->from_sender, Error(ErrorCode::timeout, "too late", 5, 6));
    side.leave_peer();
    CHECK(side.recorder.failures.size() == (aborts ? 1 : 0));
    if (aborts) CHECK(side.recorder.failures[0].rank == 5);
    CHECK(side.recorder.parked.size() == 1);
  }
}

TEST_CASE("a garbled abort is a loss, and a long reason is cut") {
  Receiving garbled;
  leave(garbled.ring.memory->from_sender, Error(ErrorCode::timeout, "too late", 5, 6));
  garbled.ring.memory->from_sender.frame[0] &= ~(std::uint64_t{0xff} << 24);  // its kind: data
  garbled.leave_peer();
  REQUIRE(garbled.recorder.failures.size() == 1);
  CHECK(garbled.recorder.failures[0].code == ErrorCode::peer_lost);
  CHECK(garbled.recorder.failures[0].rank == 3);

  Receiving wordy;
  leave(wordy.ring.memory->from_sender, Error(ErrorCode::timeout, std::string(100'000, 'x'), 5, 6));
  wordy.leave_peer();
  REQUIRE(wordy.recorder.failures.size() == 1);
  CHECK(wordy.recorder.failures[0].text == std::string(abort_text_bytes, 'x'));
}

TEST_CASE("a bye in the middle of a message is a loss") {
  Receiving side;
  CHECK_FALSE(side.ring.writer.begin(frame_with(2 * slot_bytes), pattern(slot_bytes, 1)));
  leave(side.ring.memory->from_sender);
  side.leave_peer();
  REQUIRE(side.recorder.failures.size() == 1);
  CHECK(side.recorder.failures[0].code == ErrorCode::peer_lost);
}

TEST_CASE("a receiver does not ask to be woken for a parked message, but for the next one") {
  Receiving side;
  bool park = true;
  side.recorder.decide = [&](Link&, const Frame&) { return park ? Accept::park : Accept::memory; };
  CHECK_FALSE(side.ring.put({}));
  CHECK_FALSE(side.link.arm());
  side.link.disarm();
  side.pull();
  CHECK(side.link.arm());
  CHECK_FALSE(side.ring.put({}));
  park = false;
  side.link.resume();
  CHECK_FALSE(side.link.arm());
  side.link.disarm();
  CHECK(side.pull());
  CHECK(side.recorder.messages.size() == 2);
  CHECK(side.link.arm());
  CHECK(side.ring.put({}));
}

/// Gives out one ring, or none.
struct LooseHost final : SlotHost {
  std::unique_ptr<RingEndpoint> reach(int peer, Channel) override {
    if (!memory) throw Error(ErrorCode::system, "no memory", peer);
    return std::make_unique<LooseEndpoint>(memory);
  }
  std::shared_ptr<Areas> areas(int, Channel) override { return std::make_shared<Areas>(); }
  const CopyPolicy& copy_policy() const noexcept override { return plain; }
  void backlog(OutboundSlotLink&) noexcept override {}
  void attention() noexcept override { ++alerts; }

  CopyPolicy plain;
  std::shared_ptr<RingMemory> memory = private_ring<least_areas>();
  int alerts = 0;
};

TEST_CASE("a sender says bye only if all that it sent is in the ring") {
  for (const std::size_t messages : {least_areas, least_areas + 1}) {
    CAPTURE(messages);
    LooseHost host;
    OutboundSlotLink link(host, 3, 1);
    for (std::size_t i = 0; i < messages; ++i) CHECK(link.send({}, {}, 0) == (i < least_areas));
    CHECK(link.flushed() == (messages == least_areas));
    link.say_bye();
    CHECK(host.memory->from_sender.departure.load() == (messages == least_areas ? Departure::closed : Departure::none));
  }
}

TEST_CASE("a sender that sleeps is woken by as few slots as complete its next message, or by half a ring") {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, slot_bytes / 2, slot_bytes / 2 + 1, 100 * slot_bytes}) {
    CAPTURE(size);
    LooseHost host;
    OutboundSlotLink link(host, 3, 1);
    for (std::size_t i = 0; i < least_areas; ++i) REQUIRE(link.send({}, {}, 0));
    const auto bytes = pattern(size, 1);
    REQUIRE_FALSE(link.send(frame_with(size), bytes, 0));
    CHECK(link.arm());
    Areas areas;
    RingReader reader(*host.memory, areas);
    std::size_t freed = 1;
    while (!reader.release()) ++freed;
    CHECK(freed == std::min(slots_for(size, size, least_areas), least_areas / 2));
  }
}

TEST_CASE("a link that cannot get a ring fails once, in the next pass, and keeps the transport awake until then") {
  LooseHost host;
  host.memory.reset();
  OutboundSlotLink link(host, 3, 1);
  Recorder recorder;
  CHECK_FALSE(link.send({}, {}, 0));
  CHECK_FALSE(link.send({}, {}, 0));
  CHECK(recorder.failures.empty());
  CHECK(host.alerts == 1);
  CHECK(link.attend(recorder));
  CHECK_FALSE(link.attend(recorder));
  CHECK_FALSE(link.send({}, {}, 0));
  REQUIRE(recorder.failures.size() == 1);
  CHECK(recorder.failures[0].code == ErrorCode::system);
}

TEST_CASE("a queue of messages keeps its storage while it never runs empty") {
  SendQueue queue;
  Token next_in = 0;
  Token next_out = 0;
  const auto push = [&] { queue.push({.frame = {}, .rest = {}, .token = next_in++}); };
  for (int i = 0; i < 5; ++i) push();
  for (int i = 0; i < 100; ++i) {
    push();
    queue.pop();
    ++next_out;
  }
  const std::size_t before = allocations();
  for (int i = 0; i < 10'000; ++i) {
    push();
    CHECK(queue.front().token == next_out++);
    queue.pop();
  }
  CHECK(allocations() == before);
  CHECK(queue.size() == 5);
}

}  // namespace
}  // namespace tutti::transport::testing
