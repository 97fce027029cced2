// Boards: what ranks put there in one round is what the others read in it, however far apart they run.

#include "transport/memory/board.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/base/system_calls.h"
#include "tests/support/sample.h"
#include "tests/transport/board_memory.h"
#include "tests/transport/mesh.h"

namespace tutti::transport::testing {
namespace {

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
          std::ranges::copy(contribution_words(rank, round, size), board.room(size, flow));
          board.begin(round * 100, call_words_of(call), 0, {});
          if (!is_exchange && rank != static_cast<int>(round) % ranks) continue;
          for (int other = 0; other < ranks; ++other) {
            while (!board.is_here(other)) std::this_thread::yield();
            const auto theirs = board.call(other, round);
            const bool right = board.history(other) == round * 100 && theirs && theirs->root == other &&
                               theirs->operation == round &&
                               equal(board.contribution(other, size, flow), contribution_words(other, round, size));
            if (!right) ++wrong[static_cast<std::size_t>(rank)];
          }
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == std::vector<int>(static_cast<std::size_t>(ranks)));
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

TEST_CASE("a rank far behind that is just writing its post is not taken for one far ahead") {
  const Memory memory{2};
  Board one = memory.seen_by(0);
  Board behind = memory.seen_by(1);
  const auto begin = [](Board& board) { board.begin(0, {}, 0, {}); };
  constexpr std::uint64_t latest = 5;
  for (std::uint64_t round = 0; round < latest; ++round) begin(behind);
  for (std::uint64_t round = 0; round < latest + Board::row_slots; ++round) begin(one);
  CHECK(one.latest_of(1) == latest);
  // The round of a post is the only word with that value; the highest bit says that the post is being written.
  const std::span words{reinterpret_cast<std::uint64_t*>(memory.board.get()), Board::bytes_for(2) / 8};
  CHECK(std::ranges::count(words, latest) == 2);
  std::ranges::replace(words, latest, latest | std::uint64_t{1} << 63);
  CHECK(one.latest_of(1) == latest);
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

TEST_CASE("ranks know who was on their core") {
  const Memory memory{3};
  Board one = memory.seen_by(0), same = memory.seen_by(1), elsewhere = memory.seen_by(2);
  one.say_core(0);
  CHECK(one.shares_core_with(1));  // for all that is known
  CHECK(same.shares_core_with(0));
  same.say_core(-1);
  CHECK(same.shares_core_with(0));
  CHECK(one.shares_core_with(1));
  same.say_core(0);
  elsewhere.say_core(1);
  CHECK(one.shares_core_with(1));
  CHECK(!one.shares_core_with(2));
  one.begin(7, {}, 0, {});
  CHECK(one.awaits_own_core(std::vector{1, 2}));
  CHECK(!one.awaits_own_core(std::vector{2}));
  same.begin(7, {}, 0, {});
  CHECK(!one.awaits_own_core(std::vector{1, 2}));
  CHECK(!elsewhere.shares_core_with(0));
  elsewhere.say_core(0);
  CHECK(one.shares_core_with(2));
  CHECK(elsewhere.shares_core_with(0));
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

TEST_CASE("a board for which the system has no memory is an error in its words, and may come later") {
  for_each_kind([](const Kind& kind) {
    Mesh mesh(kind, 2);
    if (!mesh[0].transport->has_boards()) return;
    const auto find = [&](int rank) { return mesh[rank].transport->board(4, std::array{0, 1}, BoardPart::areas); };
    system_calls::refuse(SystemCall::mmap, ENOMEM, 1);
    std::string text;
    try {
      find(0);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::system);
      text = error.what();
    }
    system_calls::refuse_none();
    CHECK(text.find("Cannot allocate memory; free memory") != std::string::npos);
    CHECK(find(0) != nullptr);
    CHECK(mesh.run_until([&] { return find(1) != nullptr; }));
  });
}

/// The number of chunks of boards that this process has mapped.
std::size_t mapped_chunks() {
  std::ifstream maps("/proc/self/maps");
  std::size_t found = 0;
  for (std::string line; std::getline(maps, line);) found += line.find("tutti-board") != std::string::npos ? 1U : 0U;
  return found;
}

TEST_CASE("the memory of a board that its first rank never used is the next group's, and that of others is kept") {
  const auto kind = std::ranges::find(all_kinds(), std::string_view{"shm"}, &Kind::name);
  Mesh mesh(*kind, 2);
  const auto find = [&](int rank, Channel of) {
    return mesh[rank].transport->board(of, std::array{0, 1}, BoardPart::posts_only);
  };
  constexpr Channel used = 2;
  Board* const board = find(0, used);
  REQUIRE(board);
  board->begin(1, call_words_of(Frame{}), 1, nullptr);
  mesh[0].transport->close_channel(used, Clock::now());
  for (Channel unused = 4; unused < 400; unused += 2) {
    REQUIRE(find(0, unused));
    mesh[0].transport->close_channel(unused, Clock::now());
    mesh.step();
  }
  CHECK(mapped_chunks() == 2);  // by each rank
  REQUIRE(mesh.run_until([&] { return find(1, used) != nullptr; }));
  CHECK(find(1, used)->is_in_next(0));
}

}  // namespace
}  // namespace tutti::transport::testing
