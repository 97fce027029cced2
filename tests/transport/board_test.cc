// Boards: what ranks put there in one round is what the others read in it, however far apart they run.

#include "transport/memory/board.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/sample.h"

namespace tutti::transport::testing {
namespace {

std::shared_ptr<std::byte> filled(std::size_t bytes, int value) {
  static constexpr std::align_val_t alignment{4096};
  auto* const made = static_cast<std::byte*>(::operator new(bytes, alignment));
  std::memset(made, value, bytes);
  return {made, [](std::byte* old) { ::operator delete(old, alignment); }};
}

struct Memory {
  explicit Memory(int count)
      : ranks(count), board(filled(Board::bytes_for(count), 0)), rooms(filled(AreaLayout::of(count).bytes, 0x5a)) {}

  Board seen_by(int rank) const {
    Board made{board, ranks, rank};
    made.add_areas(rooms);
    made.add_slots(slots);
    return made;
  }

  int ranks;
  std::shared_ptr<std::byte> board;
  std::shared_ptr<std::byte> rooms;
  std::shared_ptr<std::byte> slots = filled(Board::bytes_of_slots, 0x5a);
};

std::vector<std::byte> words_of(int rank, std::uint64_t round, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(static_cast<std::uint64_t>(rank) * 31 + round * 7 + i);
  return bytes;
}

bool equal(std::span<const std::byte> left, std::span<const std::byte> right) {
  return std::ranges::equal(left, right);
}

TEST_CASE("every rank reads in each round what the others put there for it") {
  const std::uint64_t rounds = tutti::testing::only_a_sanitized_sample() ? 200 : 2000;
  for (const int ranks : {2, 3, 5}) {
    const Memory memory{ranks};
    std::vector<std::thread> threads;
    std::vector<int> wrong(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        Board board = memory.seen_by(rank);
        std::mt19937_64 sizes{42};  // the same on all ranks
        for (std::uint64_t round = 1; round <= rounds; ++round) {
          const std::size_t most = round % 3 == 0   ? Board::capacity(ranks)
                                   : round % 3 == 1 ? 2 * AreaLayout::most_in_area
                                                    : 2 * post_bytes;
          const std::size_t size = sizes() % (most + 1);
          // Some rounds are read by one rank only: then the others run ahead.
          const bool is_exchange = sizes() % 4 == 0;
          const Flow flow = is_exchange ? Flow::exchange : Flow::one_way;
          while (!board.may_begin(size, flow)) std::this_thread::yield();
          const Frame call{.operation = static_cast<std::uint32_t>(round), .root = rank};
          std::ranges::copy(words_of(rank, round, size), board.room(size, flow));
          board.begin(round * 100, call_words_of(call), 0, {});
          if (!is_exchange && rank != static_cast<int>(round) % ranks) continue;
          for (int other = 0; other < ranks; ++other) {
            while (!board.is_here(other)) std::this_thread::yield();
            const auto theirs = board.call(other, round);
            const bool right = board.history(other) == round * 100 && theirs && theirs->root == other &&
                               theirs->operation == round &&
                               equal(board.contribution(other, size, flow), words_of(other, round, size));
            if (!right) ++wrong[static_cast<std::size_t>(rank)];
          }
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == std::vector<int>(static_cast<std::size_t>(ranks)));
  }
}

void post(Board& board, std::size_t size, Flow flow = Flow::one_way) {
  std::ranges::copy(words_of(0, board.round() + 1, size), board.room(size, flow));
  board.begin(0, {}, 0, {});
}

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
  for (const Case& each :
       {Case{2, post_bytes, Flow::one_way, board_depth}, Case{2, shortest, Flow::one_way, of_2.small.depth},
        Case{2, in_area, Flow::one_way, of_2.small.depth}, Case{2, in_area + 64, Flow::one_way, board_depth},
        Case{2, most, Flow::one_way, in_ring(of_2, most)}, Case{2, post_bytes, Flow::exchange, board_depth},
        Case{2, of_2.small.bytes, Flow::exchange, of_2.small.depth},
        Case{2, of_2.small.bytes + 1, Flow::exchange, of_2.large.depth}, Case{3, in_area, Flow::one_way, board_depth},
        Case{3, most, Flow::one_way, in_ring(of_3, most)}, Case{3, in_area, Flow::exchange, board_depth},
        Case{3, in_area + 1, Flow::exchange, of_3.large.depth}}) {
    const auto [ranks, size, flow, depth] = each;
    CAPTURE(each.ranks);
    CAPTURE(each.size);
    CAPTURE(static_cast<int>(each.flow));
    const Memory memory{ranks};
    Board fast = memory.seen_by(0);
    std::vector<Board> slow;
    for (int rank = 1; rank < ranks; ++rank) slow.push_back(memory.seen_by(rank));
    CHECK(!fast.may_begin(size, flow, depth));
    for (std::uint64_t round = 1; round < depth; ++round) {
      REQUIRE(fast.may_begin(size, flow));
      post(fast, size, flow);
    }
    CHECK(!fast.may_begin(size, flow));  // the next one would take the place of what the other has not begun to read
    CHECK(fast.may_begin(0, flow) == (depth < board_depth));
    for (int rounds = 0; rounds < 2; ++rounds)
      for (Board& board : slow) post(board, 0);  // and so they have read the first
    CHECK(fast.may_begin(size, flow));
  }
}

TEST_CASE("rounds that a call reserves have room, whatever they skip at the end of a ring") {
  for (const int ranks : {2, 3, 8}) {
    const AreaLayout layout = AreaLayout::of(ranks);
    for (const std::size_t size : {AreaLayout::most_in_area + 1, std::size_t{40'000}, layout.capacity}) {
      for (const Flow flow : {Flow::one_way, Flow::exchange}) {
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
        for (Board& board : boards) post(board, 0);  // all that came before has been read
        REQUIRE(boards[0].may_begin(size, flow, rounds));
        for (std::uint64_t round = 0; round < rounds; ++round) {
          REQUIRE(boards[0].may_begin(size, flow));
          post(boards[0], size, flow);
        }
      }
    }
  }
}

TEST_CASE("contributions in a ring stay as they are until others have read them, whatever their sizes") {
  std::mt19937_64 random{7};
  for (const int ranks : {2, 3}) {
    const Memory memory{ranks};
    Board writer = memory.seen_by(0);
    std::vector<Board> readers;
    for (int rank = 1; rank < ranks; ++rank) readers.push_back(memory.seen_by(rank));
    std::vector<std::size_t> sizes{0};  // by round, as the next ones
    std::vector<Flow> flows{Flow::one_way};
    const std::size_t most = Board::capacity(ranks);
    for (int steps = 0; steps < 6000; ++steps) {
      const std::size_t size = random() % 4 == 0 ? random() % 2000 : random() % (most + 1);
      const Flow flow = random() % 8 == 0 ? Flow::exchange : Flow::one_way;
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
        REQUIRE(equal(reader.contribution(0, sizes[round], flows[round]), words_of(0, round, sizes[round])));
      }
      if (reader.round() < writer.round()) post(reader, 0);
    }
    CHECK(writer.round() > 1000);
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
  CHECK(AreaLayout::of(2).bytes == std::size_t{4} << 20);
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

TEST_CASE("a slot is free once all ranks have begun a round late enough to have read it") {
  const auto begin = [](Board& board) { board.begin(0, {}, 0, {}); };
  for (const std::uint64_t late : {std::uint64_t{0}, std::uint64_t{3}}) {
    CAPTURE(late);
    const Memory memory{2};
    Board fast = memory.seen_by(0);
    Board slow = memory.seen_by(1);
    const auto goes_on = [&](std::uint64_t reads_late) {
      REQUIRE(fast.may_use_slot());
      fast.next_slot(reads_late);
      begin(fast);
    };
    for (std::uint64_t round = 1; round <= Board::row_slots; ++round) goes_on(late);
    for (std::uint64_t steps = 0; steps < late + 2; ++steps) {
      CHECK(!fast.may_use_slot());
      begin(slow);
    }
    for (int steps = 0; steps < 100; ++steps) {
      goes_on(late);
      REQUIRE(!fast.may_use_slot());
      begin(slow);
    }
    // A later call does not read late, but the slots of this one still are.
    for (std::uint64_t round = 1; round < Board::row_slots; ++round) {
      goes_on(0);
      REQUIRE(!fast.may_use_slot());
      begin(slow);
    }
    for (std::uint64_t round = 0; round <= late; ++round) goes_on(0);
    REQUIRE(!fast.may_use_slot());
  }
}

TEST_CASE("slots of rounds in a row are apart, and all ranks find the same ones") {
  const Memory memory{3};
  Board one = memory.seen_by(0);
  Board other = memory.seen_by(2);
  CHECK(one.has(BoardPart::slots));
  CHECK(!Board(memory.board, 3, 1).has(BoardPart::slots));
  std::set<std::byte*> slots;
  for (std::uint64_t round = 1; round <= Board::row_slots; ++round) {
    std::byte* const slot = one.next_slot(0);
    slots.insert(slot);
    one.begin(0, {}, 0, {});
    other.begin(0, {}, 0, {});
    CHECK(other.slot_before(0) == slot);
  }
  CHECK(*slots.begin() == memory.slots.get());
  CHECK(*slots.rbegin() + Board::row_slot_bytes == memory.slots.get() + Board::bytes_of_slots);
  for (auto slot = slots.begin(); std::next(slot) != slots.end(); ++slot)
    CHECK(*std::next(slot) - *slot == Board::row_slot_bytes);
  CHECK(slots.size() == Board::row_slots);
}

TEST_CASE("a rank has begun an earlier round although its post has made room for a later one") {
  const Memory memory{2};
  Board one = memory.seen_by(0);
  Board ahead = memory.seen_by(1);
  const auto begin = [](Board& board) { board.begin(0, {}, 0, {}); };
  for (int rounds = 0; rounds < 10; ++rounds) begin(one);
  CHECK(!one.has_begun(1, 9));
  CHECK(one.latest_of(1) == 0);
  begin(ahead);
  CHECK(one.latest_of(1) == 1);
  CHECK(one.has_begun(1, 9));
  CHECK(!one.has_begun(1, 8));
  CHECK(!one.is_in_next(1));
  for (int rounds = 1; rounds < 11; ++rounds) begin(ahead);
  CHECK(one.is_in_next(1));
  CHECK(one.latest_of(1) == 11);
  for (std::uint64_t rounds = 11; rounds < board_depth + 8; ++rounds) begin(ahead);
  CHECK(one.has_begun(1, 9));
  CHECK(one.has_begun(1, 0));
}

TEST_CASE("a rank that is cut off is not there any more, but its earlier posts are") {
  const Memory memory{2};
  Board lost = memory.seen_by(0);
  Board other = memory.seen_by(1);
  lost.begin(0, call_words_of(Frame{.operation = 7}), 0, {});
  lost.cut();
  lost.begin(0, call_words_of(Frame{.operation = 8}), 0, {});
  other.begin(0, {}, 0, {});
  CHECK(other.is_here(0));
  CHECK(other.call(0, 1)->operation == 7);
  other.begin(0, {}, 0, {});
  CHECK(!other.is_here(0));
  CHECK(!other.call(0, 2));
  other.say_abort(Error{ErrorCode::aborted, "enough", 1, 7});
  CHECK(!lost.abort_reason(1));
}

TEST_CASE("a sleeper is woken by exactly one of those who see its alarm") {
  const Memory memory{3};
  Board sleeper = memory.seen_by(0);
  Board one = memory.seen_by(1);
  Board other = memory.seen_by(2);
  CHECK(!one.takes_down_alarm(0));
  CHECK(one.nobody_sleeps());
  sleeper.arm();
  CHECK(!one.nobody_sleeps());
  CHECK(one.takes_down_alarm(0));
  CHECK(!other.takes_down_alarm(0));
  sleeper.arm();
  CHECK(other.takes_down_alarm(0));
  sleeper.arm();
  sleeper.disarm();
  CHECK(!other.takes_down_alarm(0));
  CHECK(other.nobody_sleeps());
  sleeper.disarm();
  CHECK(other.nobody_sleeps());
}

TEST_CASE("an abort is read by a rank that waits") {
  const Memory memory{2};
  Board one = memory.seen_by(0);
  Board other = memory.seen_by(1);
  CHECK(!one.abort_reason(1));
  other.say_abort(Error{ErrorCode::aborted, "enough", 1, 7});
  const auto words = one.abort_reason(1);
  REQUIRE(words);
  CHECK(words->code() == ErrorCode::aborted);
  CHECK(std::string{words->what()} == "enough");
  CHECK(words->rank() == 1);
  CHECK(words->details().reported);
}

TEST_CASE("a rank that has not begun a round sees that another one has, in another call") {
  const Memory memory{2};
  Board one = memory.seen_by(0);
  Board other = memory.seen_by(1);
  CHECK(!one.differs_in_next(1, 7));
  other.begin(7, {}, 0, {});
  CHECK(!one.differs_in_next(1, 7));
  CHECK(one.differs_in_next(1, 8));
  one.begin(7, {}, 0, {});
  CHECK(!one.differs_in_next(1, 8));
}

TEST_CASE("the latest calls of a rank are known as long as its posts are there") {
  const Memory memory{2};
  Board one = memory.seen_by(0);
  Board other = memory.seen_by(1);
  constexpr std::uint32_t rounds = board_depth + 2;
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    const CallWords before = call_words_of(Frame{.operation = 2 * round - 1});
    one.begin(0, call_words_of(Frame{.operation = 2 * round}), round, round % 3 == 0 ? &before : nullptr);
    other.begin(0, {}, 0, {});
  }
  CHECK(!other.call(0, 2));
  for (std::uint64_t round = 3; round <= rounds; ++round) {
    REQUIRE(other.call(0, round));
    CHECK(other.call(0, round)->operation == 2 * round);
    CHECK(other.oldest_running(0, round) == round);
    if (round % 3 == 0) CHECK(other.call(0, round, true)->operation == 2 * round - 1);
  }
}

}  // namespace
}  // namespace tutti::transport::testing
