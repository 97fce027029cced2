#include <doctest/doctest.h>

#include <vector>

#include "tests/support/world.h"

namespace tutti::testing {
namespace {

TEST_CASE("two halves reduce separately while the parent reduces as a whole") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 5, .kind = kind}, [](Communicator& comm) {
      const std::vector<int> low{0, 1};
      const std::vector<int> high{4, 2, 3};
      Communicator mine = comm.subgroup(comm.rank() < 2 ? low : high);
      CHECK(mine.size() == (comm.rank() < 2 ? 2 : 3));
      CHECK(mine.rank() == (comm.rank() == 4 ? 0 : comm.rank() < 2 ? comm.rank() : comm.rank() - 1));
      std::vector<int> value{comm.rank()};
      std::vector<int> all{comm.rank()};
      mine.all_reduce(value, sum);
      comm.all_reduce(all, sum);
      CHECK(value[0] == (comm.rank() < 2 ? 1 : 9));
      CHECK(all[0] == 10);
    });
  }
}

TEST_CASE("split orders by key, then by rank") {
  run_ranks({.ranks = 6}, [](Communicator& comm) {
    Communicator part = comm.split(comm.rank() % 2, comm.rank() < 2 ? 1 : 0);
    std::vector<int> ranks(3);
    part.all_gather(std::vector<int>{comm.rank()}, ranks);
    CHECK(ranks == (comm.rank() % 2 == 0 ? std::vector<int>{2, 4, 0} : std::vector<int>{3, 5, 1}));
  });
}

TEST_CASE("groups of groups, the same list twice, and a group of one") {
  run_ranks({.ranks = 4, .kind = Kind::shm}, [](Communicator& comm) {
    Communicator a = comm.split(0);
    Communicator b = comm.split(0);
    Communicator pair = a.split(a.rank() / 2);
    Communicator alone = pair.split(pair.rank());
    std::vector<int> one(3, 1);
    a.all_reduce(one, sum);
    b.all_reduce(one, sum);
    pair.all_reduce(one, sum);
    alone.all_reduce(one, sum);
    CHECK(one == std::vector<int>(3, 32));
    CHECK(alone.size() == 1);
  });
}

TEST_CASE("members that are ahead wait for the one that makes its group later") {
  run_ranks({.ranks = 3, .kind = Kind::tcp}, [](Communicator& comm) {
    if (comm.rank() == 2) {  // the others have long sent into a group that this rank does not know yet
      std::vector<int> token(1);
      comm.recv(token, 0);
    }
    Communicator pair = comm.subgroup({0, 1, 2});
    std::vector<int> one{1};
    Work work = pair.all_reduce_async(one, sum);
    if (comm.rank() == 0) comm.send(std::vector<int>{1}, 2);
    work.wait();
    CHECK(one[0] == 3);
  });
}

TEST_CASE("a sub-group outlives its parent") {
  run_ranks({.ranks = 3}, [](Communicator& comm) {
    Communicator outer = comm.split(0);
    Communicator inner = outer.split(0);
    outer = inner.split(0);
    std::vector<int> one{1};
    inner.all_reduce(one, sum);
    CHECK(one[0] == 3);
  });
}

TEST_CASE("a wrong list is refused with the reason, and nothing is sent") {
  run_ranks({.ranks = 3}, [](Communicator& comm) {
    CHECK(error_of([&] { comm.subgroup({0, 1, 2, 3}); }).find("3 is not a rank") != std::string::npos);
    CHECK(error_of([&] { comm.subgroup({0, 1, 2, 1}); }).find("listed twice") != std::string::npos);
    const int other = (comm.rank() + 1) % 3;
    CHECK(error_of([&] { comm.subgroup({other}); }).find("not in the list") != std::string::npos);
    CHECK(error_of([&] { comm.split(-1); }).find("negative") != std::string::npos);
    comm.barrier();
  });
}

}  // namespace
}  // namespace tutti::testing
