// The counts of _v calls: what ranks hear whose counts do not fit together, though nothing may be sent for some of
// them.

#include <doctest/doctest.h>

#include <future>
#include <string>
#include <vector>

#include "tests/failure/heard.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

using Counts = std::vector<std::size_t>;

std::size_t sum_of(const Counts& counts) {
  std::size_t sum = 0;
  for (const std::size_t count : counts) sum += count;
  return sum;
}

void exchange(Communicator& comm, const Counts& sends, const Counts& receives) {
  std::vector<int> out(sum_of(sends), 1);
  std::vector<int> in(sum_of(receives));
  comm.all_to_all_v(out, sends, in, receives);
}

/// All ranks send one element to each, but rank 0 sends `sent` to rank 1, which expects `expected`.
void exchange_wrongly(Communicator& comm, std::size_t sent, std::size_t expected) {
  Counts sends(static_cast<std::size_t>(comm.size()), 1);
  Counts receives = sends;
  if (comm.rank() == 0) sends[1] = sent;
  if (comm.rank() == 1) receives[0] = expected;
  exchange(comm, sends, receives);
}

void check(const Heard& answer, const std::string& words) {
  CHECK_MESSAGE(answer.code == ErrorCode::mismatch, answer.text);
  CHECK_MESSAGE(answer.rank == 0, answer.text);
  CHECK_MESSAGE(says(answer, words), answer.text);
  CHECK_MESSAGE(says(answer, "send_counts[1] in all_to_all_v #1"), answer.text);
  CHECK_MESSAGE(says(answer, "recv_counts[0]"), answer.text);
}

TEST_CASE("a rank that waits for elements that nobody sends hears of it though the other rank calls nothing any more") {
  for (const Kind kind : watched_kinds) {
    for (const int ranks : {2, 3}) {
      std::promise<void> heard_there;
      const auto answers = ask_all({.ranks = ranks, .kind = kind, .timeout = 20s}, [&](Communicator& comm) {
        if (comm.rank() == 1) {
          const Heard answer = heard([&] { exchange_wrongly(comm, 0, 5); });
          heard_there.set_value();
          check(answer, "0 sent, 5 expected");
          return;
        }
        exchange_wrongly(comm, 0, 5);
        if (comm.rank() == 0) CHECK(heard_there.get_future().wait_for(30s) == std::future_status::ready);
      });
    }
  }
}

TEST_CASE("and hears the same if the other rank goes on with a call for which both are needed") {
  for (const Kind kind : all_kinds) {
    const auto answers = ask_all({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      exchange_wrongly(comm, 0, 5);
      comm.barrier();
    });
    for (const Heard& answer : answers) check(answer, "0 sent, 5 expected");
  }
}

TEST_CASE("elements that nobody expects are found by the next call that looks at the link") {
  for (const Kind kind : all_kinds) {
    const auto answers = ask_all({.ranks = 2, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      exchange_wrongly(comm, 5, 0);
      std::vector<int> data(10, 1);
      comm.all_reduce(data, sum, {.algorithm = "ring"});
    });
    for (const Heard& answer : answers) check(answer, "5 sent, 0 expected");
  }
}

TEST_CASE("other counts of one pair are told as counts, not as bytes") {
  for (const Kind kind : all_kinds) {
    const auto answers = ask_all({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      exchange_wrongly(comm, 3, 5);
      comm.barrier();
    });
    for (const Heard& answer : answers) check(answer, "3 sent, 5 expected");
  }
}

TEST_CASE("a rank must receive as much from itself as it sends to itself") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    const Heard answer = heard([&] {
      Counts sends{1, 1};
      Counts receives{1, 1};
      ++receives[static_cast<std::size_t>(comm.rank())];
      exchange(comm, sends, receives);
    });
    CHECK_MESSAGE(answer.code == ErrorCode::invalid_argument, answer.text);
    CHECK_MESSAGE(says(answer, "what rank " + std::to_string(comm.rank()) + " sends to itself"), answer.text);
    comm.barrier();
  });
}

void gather_all(Communicator& comm, const Counts& counts) {
  std::vector<int> in(counts[static_cast<std::size_t>(comm.rank())], 1);
  std::vector<int> out(sum_of(counts));
  comm.all_gather_v(in, out, counts);
}

TEST_CASE("calls with another sum of counts are told with their sums") {
  for (const Kind kind : all_kinds) {
    const auto answers = ask_all({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      gather_all(comm, comm.rank() == 2 ? Counts{10, 20, 31} : Counts{10, 20, 30});
      comm.barrier();
    });
    for (std::size_t rank = 0; rank < answers.size(); ++rank) {
      const Heard& answer = answers[rank];
      CHECK_MESSAGE(answer.code == ErrorCode::mismatch, answer.text);
      CHECK_MESSAGE(says(answer, "all_gather_v #1 (60 x i32 in all)"), answer.text);
      CHECK_MESSAGE(says(answer, "all_gather_v #1 (61 x i32 in all)"), answer.text);
      if (answer.details.collective == "all_gather_v") CHECK(answer.details.count == (rank == 2 ? 61 : 60));
    }
  }
}

TEST_CASE("calls whose counts have the same sum are told with the counts") {
  for (const Kind kind : all_kinds) {
    const auto answers = ask_all({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      gather_all(comm, comm.rank() == 2 ? Counts{10, 19, 31} : Counts{10, 20, 30});
      comm.barrier();
    });
    for (const Heard& answer : answers) {
      CHECK_MESSAGE(answer.code == ErrorCode::mismatch, answer.text);
      CHECK_MESSAGE(says(answer, "counts"), answer.text);
      CHECK_MESSAGE((says(answer, "{10, 20, 30}") || says(answer, "{10, 19, 31}")), answer.text);
    }
  }
}

TEST_CASE("counts that fit together are no mismatch, be they 0") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      for (int round = 0; round < 40; ++round) {
        // Rank r sends to the next one only, in one round of two nothing.
        Counts sends(3), receives(3);
        const auto rank = static_cast<std::size_t>(comm.rank());
        sends[(rank + 1) % 3] = receives[(rank + 2) % 3] = static_cast<std::size_t>(round % 2 * 7);
        exchange(comm, sends, receives);
      }
      comm.barrier();
    });
  }
}

}  // namespace
}  // namespace tutti::testing
