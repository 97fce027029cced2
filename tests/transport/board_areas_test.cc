// Where contributions lie on a board, and how far a rank may run ahead of those that read them.

#include "transport/memory/board_areas.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/sample.h"
#include "tests/transport/board_memory.h"

namespace tutti::transport::testing {
namespace {

TEST_CASE("a rank runs ahead of the others by as many rounds as there is room for") {
  struct Case {
    int ranks;
    std::size_t size;
    Flow flow;
    std::uint64_t depth;
  };
  constexpr std::size_t shortest = post_bytes + 1, in_area = AreaLayout::most_in_area;
  const AreaLayout of_2 = AreaLayout::of(2), of_3 = AreaLayout::of(3);
  const std::size_t most = of_2.capacity;
  const auto in_ring = [](const AreaLayout& layout, std::size_t size) { return layout.ring_bytes / size + 1; };
  const auto in_lone_ring = [](const AreaLayout& layout, std::size_t size) {
    return layout.lone_ring_bytes / size + 1;
  };
  for (const Case& each :
       {Case{2, post_bytes, Flow::one_way, board_depth}, Case{2, shortest, Flow::one_way, of_2.small.depth},
        Case{2, in_area, Flow::one_way, of_2.small.depth}, Case{2, in_area + 64, Flow::one_way, board_depth},
        Case{2, most, Flow::one_way, in_ring(of_2, most)}, Case{2, in_area, Flow::from_one, of_2.small.depth},
        Case{2, in_area + 64, Flow::from_one, board_depth}, Case{2, most, Flow::from_one, in_lone_ring(of_2, most)},
        Case{3, most, Flow::from_one, in_lone_ring(of_3, most)}, Case{2, post_bytes, Flow::exchange, board_depth},
        Case{2, of_2.small.bytes, Flow::exchange, of_2.small.depth},
        Case{2, of_2.small.bytes + 1, Flow::exchange, of_2.large.depth}, Case{3, in_area, Flow::one_way, board_depth},
        Case{3, most, Flow::one_way, in_ring(of_3, most)}, Case{3, in_area, Flow::exchange, board_depth},
        Case{3, 2 * in_area, Flow::exchange, board_depth}, Case{3, most, Flow::exchange, in_ring(of_3, most)}}) {
    const auto [ranks, size, flow, depth] = each;
    CAPTURE(each.ranks);
    CAPTURE(each.size);
    CAPTURE(static_cast<int>(each.flow));
    // The next area is not that of the first round. A ring that is full needs its place, which the others must have
    // read.
    const bool fills_ring = depth < board_depth && AreaLayout::of(ranks).areas_for(size, flow) == nullptr;
    const Memory memory{ranks};
    Board fast = memory.seen_by(0);
    std::vector<Board> slow;
    for (int rank = 1; rank < ranks; ++rank) slow.push_back(memory.seen_by(rank));
    const auto others_begin = [&] {
      for (Board& board : slow) post(board, 0);
    };
    // The ring of a rank that contributes alone comes after the other one was filled.
    for (std::size_t filled = 0; fills_ring && flow == Flow::from_one && filled < AreaLayout::of(ranks).ring_bytes;
         filled += size) {
      REQUIRE(fast.may_begin(size, flow));
      post(fast, size, flow);
      others_begin();
    }
    if (!fills_ring) CHECK(fast.may_begin(size, flow, depth - 1));
    CHECK(!fast.may_begin(size, flow, depth));
    for (std::uint64_t round = 1; round < depth; ++round) {
      REQUIRE(fast.may_begin(size, flow));
      post(fast, size, flow);
    }
    CHECK(!fast.may_begin(size, flow));  // the next one would take the place of what the other has not begun to read
    CHECK(fast.may_begin(0, flow) == (depth < board_depth));
    if (fills_ring) others_begin();
    for (int steps = 0; steps < 3; ++steps) {
      others_begin();
      CHECK(fast.may_begin(size, flow));
      post(fast, size, flow);
      CHECK(!fast.may_begin(size, flow));
    }
    for (std::uint64_t round = slow.front().round(); round < fast.round(); ++round) others_begin();
    for (std::uint64_t round = fills_ring ? 2 : 1; round < depth; ++round) {
      REQUIRE(fast.may_begin(size, flow));
      post(fast, size, flow);
    }
    CHECK(!fast.may_begin(size, flow));
  }
}

TEST_CASE("rounds that a call reserves have room, whatever they skip at the end of a ring") {
  for (const int ranks : {2, 3, 8}) {
    const AreaLayout layout = AreaLayout::of(ranks);
    for (const std::size_t size : {AreaLayout::most_in_area + 1, std::size_t{40'000}, layout.capacity}) {
      for (const Flow flow : every_flow) {
        std::uint64_t rounds = 1;
        while (layout.has_room_for(rounds + 1, size, flow)) ++rounds;
        CAPTURE(ranks);
        CAPTURE(size);
        CAPTURE(rounds);
        const Memory memory{ranks};
        std::vector<Board> boards;
        for (int rank = 0; rank < ranks; ++rank) boards.push_back(memory.seen_by(rank));
        for (int before = 0; before < 50; ++before) {
          for (Board& board : boards) {
            REQUIRE(board.may_begin(size, flow));
            post(board, before % 2 == 0 ? size : size - 1000, flow);
          }
        }
        REQUIRE(boards[0].may_begin(size, flow, rounds));
        for (std::uint64_t round = 0; round < rounds; ++round) {
          REQUIRE(boards[0].may_begin(size, flow));
          post(boards[0], size, flow);
        }
      }
    }
  }
}

TEST_CASE("a reservation keeps its promise to rounds of several sizes and flows") {
  std::mt19937_64 random{11};
  for (const int ranks : {2, 3, 8}) {
    const AreaLayout layout = AreaLayout::of(ranks);
    const Memory memory{ranks};
    Board fast = memory.seen_by(0);
    std::vector<Board> slow;
    for (int rank = 1; rank < ranks; ++rank) slow.push_back(memory.seen_by(rank));
    int kept = 0;
    for (int tries = 0; tries < 3000; ++tries) {
      std::vector<std::pair<std::size_t, Flow>> rounds(2 + random() % 4);
      Reservation all;
      for (auto& [size, flow] : rounds) {
        constexpr std::array sizes{std::size_t{0}, std::size_t{500}, AreaLayout::most_in_area + 1, std::size_t{40'000}};
        size = sizes[random() % sizes.size()];
        flow = every_flow[random() % every_flow.size()];
        all.add(size, flow);
      }
      const std::uint64_t behind = random() % 20;
      for (Board& board : slow)
        while (board.round() + behind < fast.round()) post(board, 0);
      if (!layout.has_room_for(all) || !fast.may_begin(all)) {
        if (fast.may_begin(500, Flow::one_way)) post(fast, 500);
        continue;
      }
      ++kept;
      for (const auto& [size, flow] : rounds) {
        REQUIRE(fast.may_begin(size, flow));
        post(fast, size, flow);
      }
    }
    CHECK(kept > 100);
  }
}

TEST_CASE("contributions in a ring stay as they are until others have read them, whatever their sizes") {
  const std::uint64_t all_steps = tutti::testing::only_a_sanitized_sample() ? 1500 : 6000;
  std::mt19937_64 random{7};
  for (const int ranks : {2, 3}) {
    const Memory memory{ranks};
    Board writer = memory.seen_by(0);
    std::vector<Board> readers;
    for (int rank = 1; rank < ranks; ++rank) readers.push_back(memory.seen_by(rank));
    std::vector<std::size_t> sizes{0};  // by round, as the next ones
    std::vector<Flow> flows{Flow::one_way};
    const std::size_t most = Board::capacity(ranks);
    for (std::uint64_t steps = 0; steps < all_steps; ++steps) {
      const std::size_t size = random() % 4 == 0 ? random() % 2000 : random() % (most + 1);
      const Flow flow = random() % 8 == 0 ? Flow::exchange : random() % 2 == 0 ? Flow::from_one : Flow::one_way;
      const std::uint64_t reserved = 1 + random() % 4;
      const bool writer_is_faster = steps / 500 % 2 == 0;
      if (random() % 4 < (writer_is_faster ? 3 : 1) && writer.may_begin(size, flow, reserved)) {
        for (std::uint64_t rounds = 0; rounds < reserved; ++rounds) {
          REQUIRE(writer.may_begin(size, flow));
          sizes.push_back(size);
          flows.push_back(flow);
          post(writer, size, flow);
        }
      }
      Board& reader = readers[random() % readers.size()];
      if (const std::uint64_t round = reader.round(); round > 0) {
        REQUIRE(reader.is_here(0));
        REQUIRE(equal(reader.contribution(0, sizes[round], flows[round]), contribution_words(0, round, sizes[round])));
      }
      if (reader.round() < writer.round()) post(reader, 0);
    }
    CHECK(writer.round() > all_steps / 6);
  }
}

TEST_CASE("a ring that is full stays so, although rounds were begun without looking") {
  const Memory memory{3};
  Board writer = memory.seen_by(0), slow = memory.seen_by(1), other = memory.seen_by(2);
  const std::size_t size = Board::capacity(3);
  const std::uint64_t places = AreaLayout::of(3).ring_bytes / size;
  for (std::uint64_t round = 1; round + places < board_depth; ++round)
    for (Board* board : {&writer, &slow, &other}) post(*board, 0);
  for (std::uint64_t round = 0; round < places; ++round) {
    REQUIRE(writer.may_begin(size, Flow::one_way));
    post(writer, size);
  }
  post(slow, 0);                                                          // and reads the first of these
  for (int rounds = 0; rounds < 4; ++rounds) writer.begin(0, {}, 0, {});  // as in a row of ranks
  while (other.round() < writer.round()) post(other, 0);
  CHECK(!writer.may_begin(size, Flow::one_way));
  post(slow, 0);
  CHECK(writer.may_begin(size, Flow::one_way));
}

TEST_CASE("the areas of two ranks take a power of two, as do the places that transports have for them") {
  CHECK(AreaLayout::of(2).bytes == std::size_t{8} << 20);
}

TEST_CASE("a rank that runs ahead in rounds of one flow overwrites nothing of the other flow") {
  const std::size_t size = AreaLayout::of(2).small.bytes + 1;
  for (const auto& [flow, other] :
       {std::pair{Flow::one_way, Flow::exchange}, std::pair{Flow::exchange, Flow::one_way},
        std::pair{Flow::from_one, Flow::exchange}, std::pair{Flow::exchange, Flow::from_one},
        std::pair{Flow::from_one, Flow::one_way}, std::pair{Flow::one_way, Flow::from_one}}) {
    for (std::uint64_t first = 1; first <= 24; ++first) {
      CAPTURE(first);
      const Memory memory{2};
      Board fast = memory.seen_by(0), slow = memory.seen_by(1);
      for (std::uint64_t round = 1; round < first; ++round)
        for (Board* board : {&fast, &slow}) board->begin(0, {}, 0, {});
      post(fast, size, flow);
      slow.begin(0, {}, 0, {});
      while (fast.may_begin(size, other)) post(fast, size, other);
      CHECK(fast.round() > first + 1);
      CHECK(equal(slow.contribution(0, size, flow), contribution_words(0, first, size)));
    }
  }
}

TEST_CASE("a rank that contributes alone goes round a ring of its own, unless there is no memory for that") {
  const AreaLayout layout = AreaLayout::of(4);
  REQUIRE(layout.lone_ring_bytes > 2 * layout.ring_bytes);
  for (const bool has_memory : {true, false}) {
    CAPTURE(has_memory);
    Memory memory{4};
    void* const mapped = ::mmap(nullptr, layout.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    memory.rooms = {static_cast<std::byte*>(mapped), [bytes = layout.bytes](std::byte* old) { ::munmap(old, bytes); }};
    if (!has_memory)
      REQUIRE(::mprotect(memory.rooms.get() + layout.lone_rings, layout.bytes - layout.lone_rings, PROT_NONE) == 0);
    std::vector<Board> boards;
    for (int rank = 0; rank < 4; ++rank) boards.push_back(memory.seen_by(rank));
    std::set<const std::byte*> places;
    const std::size_t size = layout.capacity;
    const std::byte* const lone_rings = memory.rooms.get() + layout.lone_rings;
    for (std::uint64_t round = 1; round <= 100; ++round) {
      REQUIRE(boards[1].may_begin(size, Flow::from_one));
      const std::byte* const place = boards[1].room(size, Flow::from_one);
      const bool is_first_time_round = round <= layout.ring_bytes / size;
      if (is_first_time_round) CHECK(place < lone_rings);
      if (!is_first_time_round) places.insert(place);
      for (Board& board : boards) board.begin(0, {}, 0, {});
    }
    CHECK(places.size() == (has_memory ? layout.lone_ring_bytes : layout.ring_bytes) / size);
    for (const std::byte* const place : places) CHECK((place >= lone_rings) == has_memory);
  }
}

TEST_CASE("a reader finds a contribution of more than two ranks whatever its own flow is") {
  constexpr int ranks = 3;
  const Memory memory{ranks};
  Board writer = memory.seen_by(0), reader = memory.seen_by(1), other = memory.seen_by(2);
  for (const std::size_t size : {post_bytes, post_bytes + 1, AreaLayout::most_in_area, AreaLayout::most_in_area + 1,
                                 2 * AreaLayout::most_in_area, 2 * AreaLayout::most_in_area + 1})
    for (const Flow written : every_flow)
      for (const Flow read : every_flow) {
        CAPTURE(size);
        CAPTURE(static_cast<int>(written));
        CAPTURE(static_cast<int>(read));
        REQUIRE(writer.may_begin(size, written));
        post(writer, size, written);
        for (Board* board : {&reader, &other}) board->begin(0, {}, 0, {});
        CHECK(equal(reader.contribution(0, size, read), contribution_words(0, writer.round(), size)));
      }
}

TEST_CASE("a place that a peer made up is one in the same memory") {
  const Memory memory{2};
  Board writer = memory.seen_by(0), reader = memory.seen_by(1);
  const std::size_t size = Board::capacity(2);
  for (const std::size_t place : {std::size_t{0}, AreaLayout::of(2).bytes - size + 1, ~std::size_t{0}}) {
    writer.room(size, Flow::one_way);
    std::memcpy(writer.room(0, Flow::one_way), &place, sizeof place);
    writer.begin(0, {}, 0, {});
    reader.begin(0, {}, 0, {});
    const auto found = reader.contribution(0, size, Flow::one_way);
    CHECK(found.data() >= memory.rooms.get());
    CHECK(found.data() + size <= memory.rooms.get() + AreaLayout::of(2).bytes);
  }
}

}  // namespace
}  // namespace tutti::transport::testing
