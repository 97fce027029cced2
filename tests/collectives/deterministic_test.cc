#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "tests/support/noise.h"
#include "tests/support/same_bits.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

std::vector<float> input(int rank, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = rough(rank, i);
  return data;
}

std::vector<float> left_fold(int ranks, std::size_t count) {
  std::vector<float> result = input(0, count);
  for (int rank = 1; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i) result[i] += rough(rank, i);
  return result;
}

TEST_CASE("with deterministic every result is the left fold in rank order, over every transport and length") {
  for (const Kind kind : all_kinds) {
    for (const int ranks : {2, 3, 5, 8}) {
      run_ranks({.ranks = ranks, .kind = kind, .deterministic = true}, [&](Communicator& comm) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{100'000}}) {
          const std::vector<float> expected = left_fold(ranks, count);
          std::vector<float> data = input(comm.rank(), count);
          comm.all_reduce(data, sum);
          CHECK(same_bits(data, expected));
          std::vector<float> rooted = input(comm.rank(), count);
          comm.reduce(rooted, sum, ranks - 1);
          if (comm.rank() == ranks - 1) CHECK(same_bits(rooted, expected));
        }
      });
    }
  }
}

TEST_CASE("deterministic lets an op that does not commute keep rank order") {
  run_ranks({.ranks = 6, .deterministic = true}, [](Communicator& comm) {
    const auto append_digit = user_op<std::int64_t>([](std::int64_t a, std::int64_t b) {
      std::int64_t shift = 1;
      while (shift <= b) shift *= 10;
      return a * shift + b;
    });
    std::vector<std::int64_t> data(9, comm.rank() + 1);
    comm.all_reduce(data, append_digit);
    for (const std::int64_t value : data) CHECK(value == 123456);
  });
}

TEST_CASE("deterministic refuses an algorithm with another order by name") {
  run_ranks({.ranks = 2, .deterministic = true}, [](Communicator& comm) {
    std::vector<float> data(4);
    ErrorCode code{};
    CHECK(error_of([&] { comm.all_reduce(data, sum, {.algorithm = "ring"}); }, &code).find("rank order") !=
          std::string::npos);
    CHECK(code == ErrorCode::unsupported);
    comm.all_reduce(data, sum);
  });
}

TEST_CASE("without it, all ranks still end with the same bits, whatever the algorithm") {
  for (const algorithms::Entry& entry : algorithms::catalogue(Collective::all_reduce)) {
    for (const int ranks : {3, 4, 6, 7}) {
      CAPTURE(entry.name);
      run_ranks({.ranks = ranks}, [&](Communicator& comm) {
        std::vector<float> data = input(comm.rank(), 501);
        comm.all_reduce(data, sum, {.algorithm = entry.name});
        std::vector<float> of_first = data;
        comm.broadcast(of_first, 0);
        CHECK_MESSAGE(same_bits(data, of_first), std::string(entry.name));
      });
    }
  }
}

}  // namespace
}  // namespace tutti::testing
