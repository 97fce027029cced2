// The areas that two ranks exchange by their rings.

#include "transport/memory/areas.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "tests/transport/loose_ring.h"
#include "tests/transport/mesh.h"

namespace tutti::transport::testing {
namespace {

/// One of two ranks that have a ring to each other.
struct Side {
  Areas areas;
  std::shared_ptr<RingMemory> memory = private_ring<most_areas>();
  RingWriter writer;
  std::optional<RingReader> reader;
  std::size_t sent = 0, got = 0;

  explicit Side(std::size_t count) : writer(*memory, with_own(areas, memory, count)) {}
  void meet(Side& other, std::size_t count) {
    areas.add_theirs(other.memory, count);
    reader.emplace(*other.memory, areas);
  }
  void send(std::size_t length) {
    REQUIRE_FALSE(writer.full());
    REQUIRE_FALSE(writer.begin(frame_with(length), pattern(length, sent)));
    ++sent;
  }
  /// Where the message lay.
  const std::byte* receive(std::size_t length) {
    REQUIRE(reader->ready());
    const auto piece = reader->piece(length, length);
    CHECK(std::ranges::equal(piece, pattern(length, got)));
    ++got;
    REQUIRE_FALSE(reader->release());
    return piece.data();
  }
};

struct Sides {
  explicit Sides(std::size_t count = medium_areas) : a(count), b(count) {
    a.meet(b, count);
    b.meet(a, count);
  }
  Side a, b;
};

constexpr std::size_t payload_size = 1000;

TEST_CASE("messages that are answered move to and fro in one area") {
  Sides sides;
  const auto trip = [&] {
    sides.a.send(payload_size);
    const auto* const there = sides.b.receive(payload_size);
    sides.b.send(payload_size);
    CHECK(sides.a.receive(payload_size) == there);
    return there;
  };
  // A rank keeps no area before it knows that the peer has its own ring.
  for (std::size_t i = 0; i < medium_areas; ++i) {
    sides.a.send(payload_size);
    sides.b.receive(payload_size);
    sides.b.send(payload_size);
    sides.a.receive(payload_size);
  }
  const auto* const first = trip();
  for (std::size_t i = 0; i < 5 * most_areas; ++i) CHECK(trip() == first);
}

TEST_CASE("messages in one direction go round all areas: the sender's, and the receiver's if it has some") {
  for (const bool answers_first : {false, true}) {
    CAPTURE(answers_first);
    Sides sides;
    for (std::size_t i = 0; answers_first && i < medium_areas; ++i) {
      sides.b.send(payload_size);
      sides.a.receive(payload_size);
      sides.a.send(payload_size);
      sides.b.receive(payload_size);
    }
    std::set<const std::byte*> places;
    for (std::size_t i = 0; i < 4 * medium_areas; ++i) {
      if (sides.a.writer.full()) sides.b.receive(payload_size);
      sides.a.send(payload_size);
    }
    for (std::size_t i = 0; i < least_areas; ++i) sides.b.receive(payload_size);
    for (std::size_t i = 0; i < 4 * medium_areas; ++i) {
      sides.a.send(payload_size);
      places.insert(sides.b.receive(payload_size));
    }
    // The receiver still holds back those of its own that it has not heard of again.
    if (answers_first) CHECK(places.size() > medium_areas);
    if (!answers_first) CHECK(places.size() == medium_areas);
  }
}

/// Where messages of that length lie that go in one direction.
std::set<AreaName> round_of(Areas& areas, std::uint64_t length) {
  std::set<AreaName> round;
  for (std::size_t i = 0; i < 2 * most_areas; ++i) {
    const AreaName area = areas.take(length);
    round.insert(area);
    areas.put_back(area, area);
  }
  return round;
}

TEST_CASE("long messages and shorter ones go round areas of their own") {
  Areas areas;
  areas.add_own(private_ring<most_areas>(), most_areas);
  const auto of_shorter = round_of(areas, long_bytes), of_long = round_of(areas, long_bytes + 1);
  CHECK(of_long.size() == areas_of_long);
  CHECK(of_shorter.size() == most_areas - areas_of_long);
  std::set<AreaName> all = of_shorter;
  all.insert(of_long.begin(), of_long.end());
  CHECK(all.size() == most_areas);

  SUBCASE("a peer cannot move an area from one round to the other") {
    areas.put_back(*of_shorter.begin(), areas.take(long_bytes + 1));
    areas.put_back(*of_long.begin(), areas.take(long_bytes));
    CHECK(round_of(areas, long_bytes + 1) == of_long);
    CHECK(round_of(areas, long_bytes) == of_shorter);
  }
}

TEST_CASE("a ring with few areas uses them for messages of any length") {
  for (const std::size_t count : {least_areas, medium_areas}) {
    Areas areas;
    areas.add_own(private_ring<most_areas>(), count);
    CHECK(round_of(areas, long_bytes).size() == count);
    CHECK(round_of(areas, long_bytes) == round_of(areas, long_bytes + 1));
  }
}

TEST_CASE("a receiver that has no ring of its own returns what it has read") {
  LooseRing ring;
  std::set<const std::byte*> places;
  for (std::size_t i = 0; i < 3 * least_areas; ++i) {
    REQUIRE_FALSE(ring.writer.full());
    REQUIRE_FALSE(ring.put(pattern(payload_size, i)));
    places.insert(ring.reader.piece(payload_size, payload_size).data());
    REQUIRE_FALSE(ring.reader.release());
  }
  CHECK(places.size() == least_areas);
}

TEST_CASE("messages in flight never share an area, whatever both ranks send") {
  for (const std::size_t count : ring_sizes) {
    CAPTURE(count);
    Sides sides(count);
    std::uint32_t state = 7;
    const auto draw = [&](std::uint32_t below) { return (state = state * 1664525U + 1013904223U) / 65536 % below; };
    std::array<std::vector<std::size_t>, 2> in_flight;
    for (int i = 0; i < 20'000; ++i) {
      const bool from_a = draw(2) == 0;
      Side& sender = from_a ? sides.a : sides.b;
      Side& receiver = from_a ? sides.b : sides.a;
      auto& lengths = in_flight[from_a ? 0 : 1];
      if (draw(2) == 0 && !sender.writer.full()) {
        lengths.push_back(draw(3) == 0 ? 8 : short_bytes + 1 + draw(300));
        sender.send(lengths.back());
      } else if (!lengths.empty()) {
        receiver.receive(lengths.front());
        lengths.erase(lengths.begin());
      }
    }
    CHECK(sides.a.sent + sides.b.sent > 5000);
  }
}

TEST_CASE("a peer that makes up names of areas gets some area, and the sender keeps as many as it had") {
  Sides sides;
  Side& honest = sides.a;
  for (unsigned name = 0; name < 256; ++name) {
    const auto made_up = static_cast<AreaName>(name);
    const std::byte* const where = honest.areas.at(made_up);
    const auto lies_in = [&](Side& side) {
      return where >= side.memory->area(0, most_areas) && where < side.memory->area(most_areas, most_areas);
    };
    CHECK((lies_in(sides.a) || lies_in(sides.b)));
  }
  // Each name comes in each slot, after honest messages and after made-up ones.
  for (unsigned name = 0; name < 256; ++name) {
    for (std::size_t i = 0; i < 3 * least_areas; ++i) {
      if (honest.writer.full()) {
        honest.memory->returned.fill(static_cast<AreaName>(name));
        honest.memory->freed.store(honest.writer.filled());
      }
      REQUIRE_FALSE(honest.writer.full());
      honest.send(payload_size);
    }
  }
}

TEST_CASE("no piece goes beyond the area that a peer names, whatever rings the two brought") {
  for (std::size_t pair = 0; pair < ring_sizes.size() * ring_sizes.size(); ++pair) {
    const std::size_t mine = ring_sizes[pair / ring_sizes.size()], theirs = ring_sizes[pair % ring_sizes.size()];
    CAPTURE(mine);
    CAPTURE(theirs);
    const auto own = private_ring<most_areas>(), other = private_ring<most_areas>();
    Areas areas;
    areas.add_own(own, mine);
    areas.add_theirs(other, theirs);
    const RingReader reader(*other, areas);
    for (unsigned name = 0; name < 256; ++name) {
      CAPTURE(name);
      other->heads[0].filling.store(flag_of(1, static_cast<AreaName>(name)));
      constexpr std::uint64_t length = 16 * slot_bytes;
      const auto piece = reader.piece(length, length);
      const auto lies_in = [&](RingMemory& ring, std::size_t count) {
        const std::byte* const begin = ring.area(0, count);
        return piece.data() >= begin && piece.data() + piece.size() <= begin + count * area_bytes(count);
      };
      CHECK((lies_in(*own, mine) || lies_in(*other, theirs)));
    }
  }
}

TEST_CASE("a sender ignores a count of freed slots that goes back or too far, and never has an area in flight twice") {
  LooseRing ring;
  const auto fill = [&] {
    while (!ring.writer.full()) CHECK_FALSE(ring.put(pattern(short_bytes + 1, 1)));
    std::set<AreaName> in_flight;
    for (const SlotHead& head : ring.memory->heads) in_flight.insert(area_in(head.filling.load()));
    CHECK(in_flight.size() == least_areas);
  };
  const auto free_slots = [&] {
    std::size_t free = 0;
    while (free < least_areas && ring.writer.has_room(free + 1)) ++free;
    return free;
  };
  fill();
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t before = ring.writer.filled() - least_areas;
    const auto frees_after = [&](std::uint64_t count) {
      ring.memory->freed.store(count);
      return free_slots();
    };
    CHECK(frees_after(before + 5) == 5);
    CHECK(frees_after(before + 3) == 5);
    CHECK(frees_after(before + least_areas + 1) == 5);
    CHECK(frees_after(before + least_areas) == least_areas);
    fill();
    CHECK(frees_after(std::uint64_t{1} << 40) == 0);
    CHECK(frees_after(before) == 0);
    CHECK(frees_after(before + least_areas) == 0);
    CHECK(frees_after(before + 2 * least_areas) == least_areas);
    fill();
  }
}

TEST_CASE("the pieces of a message fit their slots and make up its length, whatever the ring") {
  for (const std::size_t areas : ring_sizes)
    for (std::uint64_t about = 16; about <= 1024; about *= 2)
      for (const std::uint64_t length : {about * 1024 - 1, about * 1024, about * 1024 + 1}) {
        CAPTURE(areas);
        CAPTURE(length);
        std::size_t slots = 0;
        for (std::uint64_t rest = length; rest > 0; ++slots) {
          CHECK(slots_for(length, rest, areas) + slots == slots_for(length, length, areas));
          const std::size_t piece = piece_bytes(length, rest, areas);
          REQUIRE(piece > 0);
          REQUIRE(piece <= slot_bytes);
          rest -= piece;
        }
        CHECK(slots == slots_for(length, length, areas));
      }
  // What several rings hold stays small, and one ring alone holds more of a long message.
  CHECK(full_piece(std::uint64_t{1} << 20, least_areas) < full_piece(std::uint64_t{1} << 20, most_areas));
}

TEST_CASE("bytes of an area are used for the first time once") {
  LooseRing ring;
  Areas& areas = ring.senders;
  for (const AreaName area : {own_area(0), own_area(1)}) {
    CHECK(areas.is_first_use(area, 4096));
    CHECK_FALSE(areas.is_first_use(area, 4096));
    CHECK_FALSE(areas.is_first_use(area, 1));
    CHECK(areas.is_first_use(area, 4097));
    CHECK_FALSE(areas.is_first_use(area, 4097));
  }
}

}  // namespace
}  // namespace tutti::transport::testing
