// Scans: the result of each rank, the order in which operands are combined, and the calls that are refused.

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "tests/support/noise.h"
#include "tests/support/sample.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using Number = std::uint64_t;
using Numbers = std::vector<Number>;

/// x -> a x + b as a number of two halves.
Number map_of(int rank, std::size_t i) {
  return (2 * static_cast<Number>(rank) + 3 + i % 5) << 32 | (static_cast<Number>(rank) * 7 + i % 11);
}

/// First the left map, then the right one: associative, but it does not commute.
Number after(Number left, Number right) {
  constexpr Number half = 0xffffffff;
  const Number factor = (left >> 32) * (right >> 32) & half;
  return factor << 32 | (((left & half) * (right >> 32) + (right & half)) & half);
}

Numbers maps_of(int rank, std::size_t count) {
  Numbers maps(count);
  for (std::size_t i = 0; i < count; ++i) maps[i] = map_of(rank, i);
  return maps;
}

/// The composition of the maps of ranks 0 to `ranks` - 1; `ranks` is at least 1.
Numbers composed(int ranks, std::size_t count) {
  Numbers maps = maps_of(0, count);
  for (int rank = 1; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i) maps[i] = after(maps[i], map_of(rank, i));
  return maps;
}

const Op compose = user_op<Number>(after);

/// What rank r must have in an `out` that was full of sevens.
Numbers expected(Collective collective, int rank, std::size_t count) {
  const int folded = collective == Collective::scan ? rank + 1 : rank;
  return folded == 0 ? Numbers(count, 7) : composed(folded, count);
}

void call(Communicator& comm, Collective collective, const Numbers& in, Numbers& out, const CallOptions& options = {}) {
  if (collective == Collective::scan)
    comm.scan(in, out, compose, options);
  else
    comm.exclusive_scan(in, out, compose, options);
}

constexpr Collective both[] = {Collective::scan, Collective::exclusive_scan};

TEST_CASE("every scan combines in rank order an op that does not commute, and leaves rank 0 what is its own") {
  for (const Kind kind : {Kind::shm, Kind::tcp, Kind::mixed})
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8})
      run_ranks({.ranks = ranks, .kind = kind}, [&](Communicator& comm) {
        for (const Collective collective : both)
          for (const algorithms::Entry& entry : algorithms::catalogue(collective))
            for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{5000}}) {
              const std::string name = std::string{entry.name} + (entry.has_pipeline ? "*3" : "");
              const Numbers in = maps_of(comm.rank(), count);
              Numbers out(count, 7);
              call(comm, collective, in, out, {.algorithm = name});
              CHECK_MESSAGE(out == expected(collective, comm.rank(), count), name, " ", name_of(collective));
              Numbers data = in;
              call(comm, collective, data, data, {.algorithm = name});
              const bool stays = collective == Collective::exclusive_scan && comm.rank() == 0;
              CHECK_MESSAGE(data == (stays ? in : out), name, " ", name_of(collective), " in place");
            }
      });
}

TEST_CASE("scans of every size run by themselves, waited for, started and prepared") {
  Lot lot{1, 3};
  for (const Kind kind : {Kind::inproc, Kind::shm, Kind::tcp})
    for (const int ranks : {2, 5}) {
      if (!lot.draws()) continue;
      run_ranks({.ranks = ranks, .kind = kind}, [&](Communicator& comm) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{2000}, std::size_t{300'000}}) {
          const Numbers in = maps_of(comm.rank(), count);
          Numbers waited(count, 7), started(count, 7), prepared(count, 7);
          Work work = comm.async().scan(in, started, compose);
          work.wait();
          Persistent again = comm.prepare().scan(in, prepared, compose);
          for (int i = 0; i < 3; ++i) again.run();
          comm.scan(in, waited, compose);
          CHECK(waited == expected(Collective::scan, comm.rank(), count));
          CHECK(started == waited);
          CHECK(prepared == waited);

          Numbers data = in, exclusive(count, 7), repeated(count, 7);
          Work other = comm.async().exclusive_scan(data, compose);
          other.wait();
          comm.exclusive_scan(in, exclusive, compose);
          Persistent repeat = comm.prepare().exclusive_scan(in, repeated, compose);
          for (int i = 0; i < 3; ++i) repeat.run();
          CHECK(exclusive == expected(Collective::exclusive_scan, comm.rank(), count));
          CHECK(data == (comm.rank() == 0 ? in : exclusive));
          CHECK(repeated == exclusive);
          data = in;
          comm.scan(data, compose);
          CHECK(data == waited);
        }
      });
    }
}

TEST_CASE("rank 0 of an exclusive scan need not have an output") {
  run_ranks({.ranks = 3}, [](Communicator& comm) {
    const std::vector<int> in(10, comm.rank() + 1);
    std::vector<int> out(comm.rank() == 0 ? 0 : 10);
    comm.exclusive_scan(in, out, sum);
    for (const int value : out) CHECK(value == (comm.rank() == 1 ? 1 : 3));
  });
}

TEST_CASE("with deterministic a scan is the left fold to the last bit, whatever its size") {
  for (const Kind kind : {Kind::shm, Kind::tcp})
    for (const int ranks : {2, 3, 5, 8})
      run_ranks({.ranks = ranks, .kind = kind, .deterministic = true}, [&](Communicator& comm) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{100'000}}) {
          std::vector<float> in(count), fold(count), before(count, -1.0F), out(count), exclusive(count, -1.0F);
          for (std::size_t i = 0; i < count; ++i) {
            fold[i] = rough(0, i);
            for (int rank = 1; rank <= comm.rank(); ++rank) before[i] = fold[i], fold[i] += rough(rank, i);
            in[i] = rough(comm.rank(), i);
          }
          comm.scan(in, out, sum);
          comm.exclusive_scan(in, exclusive, sum);
          CHECK(std::memcmp(out.data(), fold.data(), count * sizeof(float)) == 0);
          CHECK(std::memcmp(exclusive.data(), before.data(), count * sizeof(float)) == 0);
        }
        CHECK(error_of([&] {
                std::vector<float> data(4);
                comm.scan(data, sum, {.algorithm = "circulant"});
              }).find("rank order") != std::string::npos);
      });
}

TEST_CASE("a scan that cannot be done is refused, and nothing is sent") {
  run_ranks({.ranks = 3}, [](Communicator& comm) {
    std::vector<float> data(10), short_one(9);
    ErrorCode code{};
    CHECK(error_of([&] { comm.scan(data, avg); }, &code).find("avg is the average over all ranks") !=
          std::string::npos);
    CHECK(code == ErrorCode::invalid_argument);
    CHECK(error_of([&] { comm.scan(data, short_one, sum); }).find("out has 9 elements, but 10 are needed") !=
          std::string::npos);
    const std::span<float> first{data.data(), 5}, second{data.data() + 1, 5};
    CHECK(error_of([&] { comm.scan(first, second, sum); }).find("overlap") != std::string::npos);
    if (comm.rank() > 0)
      CHECK(error_of([&] { comm.exclusive_scan(data, short_one, sum); }).find("out has 9") != std::string::npos);
    comm.scan(data, sum);
  });
}

}  // namespace
}  // namespace tutti::testing
