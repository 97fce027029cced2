// Which calls a board of shared memory takes.

#include "lib/board/board_call.h"

#include <doctest/doctest.h>

#include <cstddef>

#include "algorithms/board_program.h"
#include "lib/board/row_call.h"

namespace tutti::detail {
namespace {

constexpr std::size_t gibibyte = std::size_t{1} << 30;

TEST_CASE("a board takes no vector with more rounds than an int counts, up to the longest one that calls accept") {
  algorithms::BoardProgram program;
  program.rounds.resize(1);
  program.rounds[0].most_units = 1;
  constexpr std::size_t capacity = 4096;
  CHECK(BoardCall::fits(program, capacity, 4096 * gibibyte));
  for (std::size_t bytes = 8192 * gibibyte; bytes < std::size_t{1} << 60; bytes *= 2)
    CHECK_FALSE(BoardCall::fits(program, capacity, bytes));
  // Twice as many units in each of two rounds make four times as many pieces.
  program.rounds.push_back(program.rounds[0]);
  program.rounds[0].most_units = program.rounds[1].most_units = 2;
  CHECK(BoardCall::fits(program, capacity, 1024 * gibibyte));
  CHECK_FALSE(BoardCall::fits(program, capacity, 2048 * gibibyte));
  program.rounds[1].most_units = 65;
  CHECK_FALSE(BoardCall::fits(program, capacity, 1));

  CHECK(RowCall::can_count_rounds_of(16 * 1024 * gibibyte));
  for (std::size_t bytes = 32 * 1024 * gibibyte; bytes < std::size_t{1} << 60; bytes *= 2)
    CHECK_FALSE(RowCall::can_count_rounds_of(bytes));
}

}  // namespace
}  // namespace tutti::detail
