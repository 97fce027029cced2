// _v calls: in what forms counts and displacements may be given, and that parts end where these say.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "tests/support/world.h"

namespace tutti::testing {
namespace {

const std::vector<std::size_t> part_counts{2, 0, 3};
// Parts in another order than ranks, with gaps before, between and behind.
const std::vector<std::size_t> displacements{6, 1, 1};
constexpr std::size_t extent = 10;

int element(int rank, std::size_t index) { return 100 * (rank + 1) + static_cast<int>(index); }

std::vector<int> part_of(int rank) {
  std::vector<int> part(part_counts[static_cast<std::size_t>(rank)]);
  for (std::size_t i = 0; i < part.size(); ++i) part[i] = element(rank, i);
  return part;
}

/// Parts of all ranks where they belong, -1 elsewhere.
std::vector<int> spread() {
  std::vector<int> all(extent, -1);
  for (int rank = 0; rank < usual_ranks; ++rank)
    std::ranges::copy(part_of(rank),
                      all.begin() + static_cast<std::ptrdiff_t>(displacements[static_cast<std::size_t>(rank)]));
  return all;
}

/// How a call is made.
enum class How { waits, starts, prepares };

/// `call` gets something with the collectives' names, and returns what its call does.
template <class Call>
void make(Communicator& comm, How how, Call call) {
  if (how == How::waits) return call(comm);
  if (how == How::starts) return call(comm.async()).wait();
  Persistent prepared = call(comm.prepare());
  prepared.run();
}

void check_all(Communicator& comm, How how) {
  const int rank = comm.rank();
  const Counts where{part_counts, displacements};
  std::vector<int> own = part_of(rank);
  std::vector<int> all(extent, -1);
  make(comm, how, [&](auto&& calls) { return calls.all_gather_v(own, all, where); });
  CHECK(all == spread());

  std::vector<int> at_root(rank == 2 ? extent : 0, -1);
  make(comm, how, [&](auto&& calls) { return calls.gather_v(own, at_root, where, 2); });
  if (rank == 2) CHECK(at_root == spread());

  std::vector<int> got(own.size());
  const std::vector<int> source = rank == 1 ? spread() : std::vector<int>{};
  make(comm, how, [&](auto&& calls) { return calls.scatter_v(source, where, got, 1); });
  CHECK(got == own);

  const std::vector<int> addends = spread();
  make(comm, how, [&](auto&& calls) { return calls.reduce_scatter_v(addends, got, where, sum); });
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == usual_ranks * own[i]);

  // Rank r sends rank k counts[k] elements from its spread parts, and puts what it gets into places of 4.
  const auto size = part_counts[static_cast<std::size_t>(rank)];
  std::vector<int> received(4 * usual_ranks, -1);
  make(comm, how, [&](auto&& calls) {
    return calls.all_to_all_v(addends, where, received, {{size, size, size}, {8, 4, 0}}, {.algorithm = "direct"});
  });
  for (std::size_t from = 0; from < usual_ranks; ++from)
    for (std::size_t i = 0; i < 4; ++i) CHECK(received[8 - 4 * from + i] == (i < size ? own[i] : -1));
}

}  // namespace

TEST_CASE("parts lie where displacements say, and what is between them stays") {
  for (const Kind kind : all_kinds) {
    for (const How how : {How::waits, How::starts, How::prepares}) {
      CAPTURE(std::string{name_of(kind)});
      CAPTURE(static_cast<int>(how));
      run_ranks({.ranks = usual_ranks, .kind = kind}, [&](Communicator& comm) { check_all(comm, how); });
    }
  }
}

TEST_CASE("a prepared call with displacements takes and gives its parts at every start") {
  run_ranks({.ranks = usual_ranks}, [](Communicator& comm) {
    std::vector<int> own = part_of(comm.rank()), all(extent, -1), summed(own.size());
    Persistent gather = comm.prepare().all_gather_v(own, all, {part_counts, displacements});
    Persistent reduce = comm.prepare().reduce_scatter_v(all, summed, {part_counts, displacements}, sum);
    for (int start = 1; start <= 3; ++start) {
      for (std::size_t i = 0; i < own.size(); ++i) own[i] = start * element(comm.rank(), i);
      gather.run();
      reduce.run();
      for (std::size_t i = 0; i < own.size(); ++i) CHECK(summed[i] == usual_ranks * own[i]);
    }
    CHECK(all[0] == -1);
  });
}

TEST_CASE("counts are lists, and ranges of any integers") {
  run_ranks({.ranks = usual_ranks}, [](Communicator& comm) {
    const std::vector<int> own = part_of(comm.rank());
    std::vector<int> expected;
    for (int rank = 0; rank < usual_ranks; ++rank) std::ranges::copy(part_of(rank), std::back_inserter(expected));
    const auto check = [&](const Counts& given) {
      std::vector<int> all(expected.size());
      comm.all_gather_v(own, all, given);
      CHECK(all == expected);
    };
    check({2, 0, 3});
    check({std::size_t{2}, std::size_t{0}, std::size_t{3}});
    check(std::vector<int>{2, 0, 3});
    check(std::vector<std::size_t>{2, 0, 3});
    check(std::array<std::uint8_t, 3>{2, 0, 3});
    check(std::span{part_counts});
    check(part_counts);
    check({{2, 0, 3}, {0, 2, 2}});
    const int array[] = {2, 0, 3};
    check(array);
    Counts moved = std::vector<int>{2, 0, 3};
    const Counts kept = std::move(moved);
    check(kept);
    std::vector<int> all(expected.size());
    Persistent prepared = comm.prepare().all_gather_v(own, all, std::vector<int>{2, 0, 3});  // keeps its own
    prepared.run();
    CHECK(all == expected);
  });
}

TEST_CASE("displacements that cannot be right are refused, with the part that is wrong") {
  run_ranks({.ranks = usual_ranks}, [](Communicator& comm) {
    std::vector<int> own(2, comm.rank()), all(6);
    const auto refused = [&](const char* text, const std::function<void()>& call) {
      ErrorCode code{};
      const std::string what = error_of(call, &code);
      CHECK_MESSAGE(what.find(text) != std::string::npos, what);
      CHECK(code == ErrorCode::invalid_argument);
    };
    refused("displacements has 2 entries", [&] { comm.all_gather_v(own, all, {{2, 2, 2}, {0, 2}}); });
    refused("part 2 has 2 from 5 on", [&] { comm.all_gather_v(own, all, {{2, 2, 2}, {0, 2, 5}}); });
    refused("parts 2 and 0 of out overlap", [&] { comm.all_gather_v(own, all, {{2, 2, 2}, {1, 4, 0}}); });
    refused("a displacement of -1 is negative", [&] { comm.all_gather_v(own, all, {{2, 2, 2}, {0, -1, 2}}); });
    refused("a count of -2 is negative", [&] { comm.all_gather_v(own, all, {2, -2, 2}); });
    const std::span own_place = std::span{all}.subspan(2 * static_cast<std::size_t>(comm.rank()), 2);
    refused("in and out overlap", [&] { comm.all_gather_v(own_place, all, {{2, 2, 2}, {2, 4, 0}}); });
    // Parts of an input may overlap, and the own part in place is where its displacement says.
    std::vector<int> source(3, 1);
    comm.reduce_scatter_v(source, own, {{2, 2, 2}, {0, 1, 1}}, sum);
    CHECK(own == std::vector<int>{3, 3});
  });
}

TEST_CASE("in place with displacements") {
  run_ranks({.ranks = usual_ranks}, [](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    std::vector<int> all(extent, -1);
    const std::span own = std::span{all}.subspan(displacements[rank], part_counts[rank]);
    std::ranges::copy(part_of(comm.rank()), own.begin());
    comm.all_gather_v(own, all, {part_counts, displacements});
    CHECK(all == spread());
  });
}

}  // namespace tutti::testing
