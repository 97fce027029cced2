// Calls that are one exchange of messages, which their callers run by themselves if the peer is quick.

#include <doctest/doctest.h>
#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/observe/black_box_reader.h"
#include "tests/support/sample.h"
#include "tests/support/scratch.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;
using transport::SingleCopy;
using Values = std::vector<std::uint32_t>;

/// Two ranks. Boards would carry short calls; the plans named here go over links.
WorldOptions two_ranks(Kind kind, SingleCopy single_copy) {
  return {.ranks = 2, .kind = kind, .copy_policy = {.single_copy = single_copy}};
}

Values content(std::size_t count, int rank, std::size_t call) {
  Values values(count);
  std::minstd_rand random{static_cast<std::uint32_t>(31 * call + static_cast<std::size_t>(rank) + 1)};
  for (std::uint32_t& value : values) value = static_cast<std::uint32_t>(random());
  return values;
}

Values together(const Values& first, const Values& second) {
  Values both = first;
  both.insert(both.end(), second.begin(), second.end());
  return both;
}

std::span<const std::uint32_t> half(const Values& values, int which) {
  return std::span{values}.subspan(values.size() / 2 * static_cast<std::size_t>(which), values.size() / 2);
}

bool same(std::span<const std::uint32_t> one, std::span<const std::uint32_t> other) {
  return std::ranges::equal(one, other);
}

/// Each call once, with `count` elements of each rank; `before` comes before each of them. True: all was right.
template <class Before>
bool run_calls(Communicator& comm, std::size_t count, std::size_t call, const Before& before) {
  const int me = comm.rank(), other = 1 - me;
  const Values mine = content(2 * count, me, call), theirs = content(2 * count, other, call);
  const Values zero_first = me == 0 ? together(mine, theirs) : together(theirs, mine);
  bool good = true;
  for (const int root : {0, 1}) {
    Values data = me == root ? mine : Values(2 * count);
    before();
    comm.broadcast(data, root, {.algorithm = "tree"});
    good &= data == (me == root ? mine : theirs);

    Values all(me == root ? 4 * count : 0);
    before();
    comm.gather(mine, all, root, {.algorithm = "tree"});
    good &= me != root || all == zero_first;

    Values part(count);
    before();
    comm.scatter(me == root ? mine : Values{}, part, root, {.algorithm = "tree"});
    good &= same(part, half(me == root ? mine : theirs, me));

    Values sum(me == root ? 2 * count : 0);
    before();
    comm.reduce(mine, sum, bxor, root, {.algorithm = "tree"});
    for (std::size_t i = 0; i < sum.size(); ++i) good &= sum[i] == (mine[i] ^ theirs[i]);
  }
  Values all(4 * count);
  before();
  comm.all_gather(mine, all, {.algorithm = "circulant"});
  good &= all == zero_first;

  std::ranges::copy(mine, all.begin() + static_cast<std::ptrdiff_t>(2 * count) * me);
  const std::span own{all.data() + 2 * count * static_cast<std::size_t>(me), 2 * count};
  before();
  comm.all_gather(own, all, {.algorithm = "circulant"});
  good &= all == zero_first;

  Values parts(2 * count);
  before();
  comm.all_to_all(mine, parts, {.algorithm = "pairwise"});
  good &= same(half(parts, me), half(mine, me)) && same(half(parts, other), half(theirs, me));
  return good;
}

TEST_CASE("calls of one exchange are right at any size, whoever is late") {
  Lot lot{1, 6};
  for (const Kind kind : {Kind::inproc, Kind::shm}) {
    for (const SingleCopy single_copy : {SingleCopy::measured, SingleCopy::never, SingleCopy::always}) {
      if (!lot.draws()) continue;
      CAPTURE(name_of(kind));
      CAPTURE(static_cast<int>(single_copy));
      run_ranks(two_ranks(kind, single_copy), [](Communicator& comm) {
        std::minstd_rand random{static_cast<std::uint32_t>(comm.rank() + 1)};
        // Long enough, now and then, for the other rank to leave its call to the engine, and to sleep.
        const auto be_late = [&random] {
          const std::uint32_t drawn = random() % 64;
          const auto until = std::chrono::steady_clock::now() + (drawn == 0 ? 2000us : drawn < 32 ? drawn * 5us : 0us);
          while (std::chrono::steady_clock::now() < until) continue;
        };
        std::size_t call = 0;
        for (const std::size_t count :
             std::vector<std::size_t>{0, 1, 100, 2'048, 4'099, 8'192, 30'000, 131'072, 140'000})
          for (int round = 0; round < 6; ++round) CHECK(run_calls(comm, count, ++call, be_late));
      });
    }
  }
}

TEST_CASE("calls in flight keep their order with calls that their callers run") {
  run_ranks(two_ranks(Kind::shm, SingleCopy::measured), [](Communicator& comm) {
    constexpr std::size_t count = 20'000;
    for (std::size_t call = 1; call <= 20; ++call) {
      Values early = comm.rank() == 0 ? content(count, 0, call) : Values(count);
      Values late = comm.rank() == 1 ? content(count, 1, call) : Values(count);
      Work first = comm.async().broadcast(early, 0, {.algorithm = "tree"});
      comm.broadcast(late, 1, {.algorithm = "tree"});
      first.wait();
      CHECK(early == content(count, 0, call));
      CHECK(late == content(count, 1, call));
    }
  });
}

TEST_CASE("ranks whose calls differ are told so, whatever has been lent") {
  for (const SingleCopy single_copy : {SingleCopy::never, SingleCopy::always}) {
    CAPTURE(static_cast<int>(single_copy));
    run_ranks(two_ranks(Kind::shm, single_copy), [](Communicator& comm) {
      constexpr std::size_t count = 10'000;
      for (std::size_t call = 1; call < 4; ++call) CHECK(run_calls(comm, count, call, [] {}));
      Values mine = content(2 * count, comm.rank(), 9), all(4 * count);
      ErrorCode code{};
      const std::string what = error_of(
          [&] {
            if (comm.rank() == 0) comm.all_gather(mine, all, {.algorithm = "circulant"});
            if (comm.rank() == 1) comm.all_to_all(mine, Values(2 * count), {.algorithm = "pairwise"});
          },
          &code);
      CAPTURE(what);
      CHECK(code == ErrorCode::mismatch);
      CHECK(what.find("all_gather") != std::string::npos);
      CHECK(what.find("all_to_all") != std::string::npos);
    });
  }
}

TEST_CASE("a call whose peer leaves fails, whatever it waits for") {
  for (const SingleCopy single_copy : {SingleCopy::never, SingleCopy::always}) {
    for (const bool sends : {true, false}) {
      CAPTURE(static_cast<int>(single_copy));
      CAPTURE(sends);
      run_ranks(two_ranks(Kind::shm, single_copy), [sends](Communicator& comm) {
        constexpr std::size_t count = 10'000;
        for (std::size_t call = 1; call < 4; ++call) CHECK(run_calls(comm, count, call, [] {}));
        if (comm.rank() == 1) return;
        Values mine = content(count, 0, 9), all(2 * count);
        ErrorCode code{};
        const std::string what = error_of(
            [&] {
              if (sends) comm.all_gather(mine, all, {.algorithm = "circulant"});
              if (!sends) comm.broadcast(mine, 1, {.algorithm = "tree"});
            },
            &code);
        CAPTURE(what);
        CHECK(code == ErrorCode::peer_lost);
        CHECK(what.find("rank 1") != std::string::npos);
      });
    }
  }
}

TEST_CASE("the black box has calls that their callers ran, as done") {
  const Folder folder;
  const Setting setting{"TUTTI_BLACK_BOX", folder.name + "/%r"};
  constexpr std::size_t count = 5000;
  run_ranks(two_ranks(Kind::shm, SingleCopy::measured), [](Communicator& comm) {
    Values mine(count), all(2 * count);
    for (int call = 0; call < 4; ++call) comm.all_gather(mine, all, {.algorithm = "circulant"});
  });
  const Descriptor file{::open((folder.name + "/1").c_str(), O_RDONLY | O_CLOEXEC)};
  const black_box::Snapshot seen = black_box::read(file, "1");
  REQUIRE(seen.entries.size() == 4);
  for (const black_box::OperationRecord& entry : seen.entries) {
    CHECK(entry.call.collective == static_cast<std::uint8_t>(Collective::all_gather));
    CHECK(entry.call.parts == 3);
    CHECK(entry.parts_done == 3);
    CHECK(entry.bytes == 2 * count * sizeof(std::uint32_t));
    CHECK(entry.state == black_box::State::done);
  }
}

}  // namespace
}  // namespace tutti::testing
