// Calls by domains of ranks that are near each other: on a board they are what their plans say over links, to the last
// bit, and they are chosen where the places of ranks say so.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/noise.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using Vector = std::vector<float>;

const char* const domains_table =
    "all_reduce * * * hierarchical domains\n"
    "reduce     * * * hierarchical domains\n"
    "broadcast  * * * hierarchical domains\n"
    "barrier    * * * hierarchical domains\n";

/// All that one rank gets from calls of `algorithm`; empty: of the table's choice.
Vector results(Communicator& comm, const std::string& algorithm, std::size_t count) {
  Vector got;
  const auto keep = [&got](const Vector& values) { got.insert(got.end(), values.begin(), values.end()); };
  const CallOptions by{.algorithm = algorithm};
  const Vector own = noise(count, comm.rank());
  Vector one(count);
  const Op in_order = user_op<float>([](float a, float b) { return a * 0.75F + b; });
  for (const Op& op : {sum, avg, in_order}) {
    comm.all_reduce(own, one, op, by);
    keep(one);
    one = own;
    comm.all_reduce(one, op, by);
    keep(one);
    for (int root = 0; root < comm.size(); ++root) {
      one = own;
      comm.reduce(one, op, root, by);
      if (comm.rank() == root) keep(one);
    }
  }
  for (int root = 0; root < comm.size(); ++root) {
    one = own;
    comm.broadcast(one, root, by);
    keep(one);
  }
  comm.barrier(by);
  return got;
}

std::vector<Vector> results_of_all(const WorldOptions& options, const std::string& algorithm, std::size_t count) {
  std::vector<Vector> all(static_cast<std::size_t>(options.ranks));
  run_ranks(options,
            [&](Communicator& comm) { all[static_cast<std::size_t>(comm.rank())] = results(comm, algorithm, count); });
  return all;
}

bool same_bits(const std::vector<Vector>& a, const std::vector<Vector>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i)
    same = a[i].size() == b[i].size() &&
           (a[i].empty() || std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) == 0);
  return same;
}

struct Division {
  int ranks;
  const char* domains;
};

}  // namespace

TEST_CASE("calls by domains have the same bits on a board as over links") {
  for (const Kind kind : {Kind::inproc, Kind::shm})
    for (const Division& division :
         {Division{4, "3+1"}, {4, "0.2+1.3"}, {5, "1+2+2"}, {6, "0.5+1.4+2.3"}, {7, "0-1.6+2+3.5+4"}})
      for (const std::size_t count :
           {std::size_t{0}, std::size_t{1}, std::size_t{300}, std::size_t{5000}, std::size_t{40000}}) {
        CAPTURE(std::string{name_of(kind)});
        CAPTURE(std::string{division.domains});
        CAPTURE(count);
        const std::string algorithm = std::string{"hierarchical:"} + division.domains;
        const auto on_board = results_of_all({.ranks = division.ranks, .kind = kind}, algorithm, count);
        const auto on_links =
            results_of_all({.ranks = division.ranks, .kind = kind, .boards = false}, algorithm, count);
        CHECK(same_bits(on_board, on_links));
      }
}

TEST_CASE("hundreds of calls by domains, one after the other, reuse the memory of the board") {
  run_ranks({.ranks = 5, .kind = Kind::shm}, [](Communicator& comm) {
    const CallOptions by{.algorithm = "hierarchical:0.2+1.3.4"};
    for (const std::size_t count : {std::size_t{1}, std::size_t{200}, std::size_t{3000}}) {
      for (int i = 0; i < 200; ++i) {
        std::vector<int> values(count, comm.rank() + i);
        comm.all_reduce(values, sum, by);
        REQUIRE(values == std::vector<int>(count, 10 + 5 * i));
        values.assign(count, comm.rank() == i % 5 ? i : -1);
        comm.broadcast(values, i % 5, by);
        REQUIRE(values == std::vector<int>(count, i));
      }
    }
  });
}

TEST_CASE("the places of ranks decide about domains, for each communicator by its own ranks") {
  const std::string interleaved = "rank 0,2,4 cache left node 0\nrank 1,3,5 cache right node 0\n";
  run_ranks({.ranks = 6, .kind = Kind::shm, .topology = interleaved, .tuning = domains_table}, [](Communicator& comm) {
    CHECK(comm.chosen_algorithm(Collective::all_reduce, 4) == "hierarchical:0.2.4+1.3.5");
    CHECK(comm.chosen_algorithm(Collective::broadcast, 4) == "hierarchical:0.2.4+1.3.5");
    CHECK(comm.chosen_algorithm(Collective::all_gather, 4) == "direct");
    Communicator half = comm.split(comm.rank() % 2);  // all in one cache
    CHECK(half.chosen_algorithm(Collective::all_reduce, 4) == "direct");
    Communicator four = comm.split(comm.rank() < 4 ? 0 : 1);
    CHECK(four.chosen_algorithm(Collective::barrier, 0) == (comm.rank() < 4 ? "hierarchical:0.2+1.3" : "direct"));
    CHECK(results(four, "", 10).size() > 10);
  });
  const auto chosen =
      results_of_all({.ranks = 6, .kind = Kind::shm, .topology = interleaved, .tuning = domains_table}, "", 100);
  CHECK(same_bits(chosen, results_of_all({.ranks = 6, .kind = Kind::shm}, "hierarchical:0.2.4+1.3.5", 100)));
}

TEST_CASE("ranks are in no domains if one of them may run in several, if all share one, and across hosts") {
  for (const char* topology : {"rank 0-1 cache a\nrank 2 cache b\n", "rank 0-3 cache a\n"})
    run_ranks({.ranks = 4, .kind = Kind::shm, .topology = topology, .tuning = domains_table},
              [](Communicator& comm) { CHECK(comm.chosen_algorithm(Collective::all_reduce, 4) == "direct"); });
  const std::string two = "rank 0-1 cache a\nrank 2-3 cache b\n";
  run_ranks({.ranks = 4, .kind = Kind::mixed, .topology = two, .tuning = domains_table}, [](Communicator& comm) {
    CHECK(comm.chosen_algorithm(Collective::all_reduce, 4).find('+') == std::string::npos);
  });
}

TEST_CASE("domains of another number of ranks are refused") {
  run_ranks({.ranks = 3, .kind = Kind::shm}, [](Communicator& comm) {
    ErrorCode code{};
    CHECK(error_of([&] { comm.barrier({.algorithm = "hierarchical:3+1"}); }, &code) ==
          "barrier cannot use the algorithm hierarchical:3+1 here: its domains have 4 ranks, not 3");
    CHECK(code == ErrorCode::unsupported);
  });
}

}  // namespace tutti::testing
