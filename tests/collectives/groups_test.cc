#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/system_calls.h"
#include "tests/support/sample.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

/// What this process holds of what systems limit.
struct Holdings {
  std::ptrdiff_t descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  std::ptrdiff_t mappings = 0;

  Holdings() {
    std::ifstream maps("/proc/self/maps");
    mappings = std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  }
};

/// A tiny call and one whose payload needs room.
void use(Communicator& comm) {
  comm.barrier();
  std::vector<int> many(1000, comm.rank());
  comm.all_reduce(many, sum);
  CHECK(many.back() == comm.size() * (comm.size() - 1) / 2);
}

/// What `body` adds to what the process holds when all ranks are through. The others wait while rank 0 looks.
void check_holdings(Communicator& comm, std::ptrdiff_t most, const std::function<void()>& body) {
  comm.barrier();
  const Holdings before;
  comm.barrier();
  body();
  comm.barrier();
  const Holdings after;
  comm.barrier();
  if (comm.rank() != 0) return;
  CHECK(after.descriptors - before.descriptors <= most);
  CHECK(after.mappings - before.mappings <= most);
}

/// As long as it lives the system refuses memory, mappings and sockets to the ranks of this process.
struct Refusals {
  Refusals() {
    for (const SystemCall call : {SystemCall::memfd, SystemCall::fallocate, SystemCall::mmap, SystemCall::socket})
      system_calls::refuse(call, EMFILE, 0);
  }
  ~Refusals() { system_calls::refuse_none(); }
};

TEST_CASE("groups that come and go need nothing from the system but what the first of them has left") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    const auto split_and_use = [&](int times) {
      for (int i = 0; i < times; ++i) {
        Communicator part = comm.split(0);
        use(part);
      }
    };
    split_and_use(10);
    std::optional<Refusals> refusals;
    if (comm.rank() == 0) refusals.emplace();
    check_holdings(comm, 4,
                   [&] { split_and_use(only_a_sanitized_sample() ? 50 : 500); });  // the allocator may map an arena
  });
}

TEST_CASE("sub-groups of ever other members leave no descriptors and no mappings behind") {
  run_ranks({.ranks = 5, .kind = Kind::shm}, [](Communicator& comm) {
    const auto make_and_use = [&](unsigned members) {
      std::vector<int> list;
      for (int rank = 0; rank < comm.size(); ++rank)
        if ((members >> rank & 1) != 0) list.push_back(rank);
      if (list.size() < 2 || (members >> comm.rank() & 1) == 0) return;
      std::rotate(list.begin(), list.begin() + static_cast<int>(members % list.size()), list.end());
      Communicator part = comm.subgroup(list);
      use(part);
    };
    const auto use_all = [&] {
      for (unsigned members = 0; members < 32; ++members) make_and_use(members);
    };
    use_all();
    check_holdings(comm, 8, [&] {
      for (int i = 0; i < (only_a_sanitized_sample() ? 1 : 8); ++i) use_all();
    });
  });
}

TEST_CASE("a group over TCP has no more descriptors than docs/failures.md says") {
  run_ranks({.ranks = 2, .kind = Kind::tcp}, [](Communicator& comm) {
    const auto exchange = [](Communicator& group) {
      const int other = 1 - group.rank();
      std::vector<int> mine(100'000, group.rank()), theirs(mine.size());
      for (const std::size_t count : {std::size_t{1}, mine.size()})
        for (int i = 0; i < 20; ++i)
          group.sendrecv(std::span{mine}.first(count), other, std::span{theirs}.first(count), other);
      use(group);
    };
    exchange(comm);
    std::optional<Communicator> group;
    // Both ranks are in this process, and may connect to each other at the same time.
    check_holdings(comm, 2 * (2 * 4 + 2), [&] { exchange(group.emplace(comm.split(0))); });
  });
}

TEST_CASE("thousands of groups at a time need few descriptors and mappings") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    const int count = only_a_sanitized_sample() ? 300 : 3000;
    std::vector<Communicator> groups;
    check_holdings(comm, 100, [&] {
      for (int i = 0; i < count; ++i) {
        groups.push_back(comm.split(0));
        groups.back().barrier();
      }
    });
    std::vector<int> one{1};
    groups.front().all_reduce(one, sum);
    groups.back().all_reduce(one, sum);
    CHECK(one[0] == 4);
  });
}

/// The resident memory of this process, in bytes.
std::ptrdiff_t resident_memory() {
  std::ifstream statm("/proc/self/statm");
  std::ptrdiff_t all = 0;
  std::ptrdiff_t resident = 0;
  statm >> all >> resident;
  REQUIRE(resident > 0);
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST_CASE("a hundred thousand groups, one after the other, leave no memory behind") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    constexpr std::ptrdiff_t most = std::ptrdiff_t{2} << 20;
    const auto split_often = [&](int times) {
      for (int i = 0; i < times; ++i) comm.split(0).barrier();
    };
    const int times = only_a_sanitized_sample() ? 1'000 : 100'000;
    split_often(times / 10);
    comm.barrier();
    const std::ptrdiff_t before = resident_memory();
    split_often(times - times / 10);
    comm.barrier();
    if (comm.rank() == 0 && !only_a_sanitized_sample()) CHECK(resident_memory() - before <= most);
  });
}

TEST_CASE("a group whose call needs room is told of a member that makes another call") {
  for (const int first : {0, 1}) {  // the one that makes the room, or the other
    ErrorCode code{};
    std::string what;
    run_ranks({.ranks = 2, .kind = Kind::shm, .timeout = std::chrono::seconds{20}}, [&](Communicator& comm) {
      Communicator part = comm.split(0);
      std::vector<int> many(1000);
      ErrorCode found{};
      const std::string text = error_of(
          [&] {
            if (comm.rank() == first) {
              part.all_reduce(many, sum);
            } else {
              part.barrier();
            }
          },
          &found);
      if (comm.rank() == first) code = found, what = text;
    });
    CHECK(code == ErrorCode::mismatch);
    CHECK(what.find("barrier") != std::string::npos);
    // Rank 1, which waits for the room, finds it by itself, or the coordinator tells it.
    INFO(what);
    CHECK(what.find(first == 1 ? " called all_reduce" : "all_reduce") != std::string::npos);
  }
}

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
    Work work = pair.async().all_reduce(one, sum);
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
    CHECK(error_of([&] { comm.split(-2); }).find("negative") != std::string::npos);
    comm.barrier();
  });
}

}  // namespace

TEST_CASE("a rank may take part in split() and join no group") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 4, .kind = kind}, [](Communicator& comm) {
      for (int round = 0; round < 3; ++round) {
        Communicator part = comm.split(comm.rank() == 1 ? no_group : comm.rank() % 2);
        CHECK(static_cast<bool>(part) == (comm.rank() != 1));
        if (!part) {
          CHECK_THROWS_WITH_AS(part.barrier(), doctest::Contains("joined no group"), Error);
          continue;
        }
        CHECK(part.size() == (comm.rank() == 3 ? 1 : 2));
        use(part);
      }
      use(comm);
      CHECK_FALSE(comm.split(no_group));
      CHECK_THROWS_WITH_AS(comm.split(-2), doctest::Contains("valid are 0 and above, and -1 for a rank that"), Error);
    });
  }
}
TEST_CASE("local ranks are counted among the members of each communicator") {
  // Even and odd ranks are two hosts.
  run_ranks({.ranks = 5, .kind = Kind::mixed}, [](Communicator& comm) {
    CHECK(comm.local_rank() == comm.rank() / 2);
    CHECK(comm.local_size() == (comm.rank() % 2 == 0 ? 3 : 2));
    if (comm.rank() == 2) return;
    Communicator part = comm.subgroup({4, 3, 1, 0});
    const int places[] = {1, 1, -1, 0, 0};  // by rank of the world
    CHECK(part.local_rank() == places[comm.rank()]);
    CHECK(part.local_size() == 2);
  });
}

TEST_CASE("split_by_host makes one communicator for each host") {
  run_ranks({.ranks = 5, .kind = Kind::mixed}, [](Communicator& comm) {
    Communicator host = comm.split_by_host();
    CHECK(host.rank() == comm.local_rank());
    CHECK(host.size() == comm.local_size());
    int sum_of_ranks = comm.rank();
    host.all_reduce(std::span{&sum_of_ranks, 1}, sum);
    CHECK(sum_of_ranks == (comm.rank() % 2 == 0 ? 6 : 4));
    Communicator same = host.split_by_host();
    CHECK(same.size() == host.size());
    same.barrier();
  });
}

}  // namespace tutti::testing
