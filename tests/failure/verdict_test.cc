// Errors name the culprit and the cause if ranks stay away, leave, wait for each other, or give up. No data is wrong.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/failure/heard.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a rank that is alive but has not called is told apart from a dead one") {
  for (const Kind kind : watched_kinds) {
    const auto answers = ask_all({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      std::vector<int> data(10, 1);
      comm.all_reduce(data, sum);
      if (comm.rank() == 1) return;
      comm.all_reduce(data, sum, {.timeout = short_deadline});
    });
    for (const int rank : {0, 2}) {
      const Heard& answer = answers[static_cast<std::size_t>(rank)];
      CHECK_MESSAGE(answer.code == ErrorCode::timeout, answer.text);
      CHECK_MESSAGE(answer.rank == 1, answer.text);
      CHECK_MESSAGE(says(answer, "is alive but has not called all_reduce #2"), answer.text);
      CHECK_MESSAGE(says(answer, "its last call there was #1, which has ended"), answer.text);
      CHECK(answer.details.collective == "all_reduce");
      CHECK(answer.details.count == 10);
      CHECK(answer.details.data_type == "i32");
      CHECK(answer.details.steps > 0);
      CHECK(answer.details.in_rounds == (kind == Kind::shm));
      CHECK(!answer.details.algorithm.empty());
      CHECK(answer.details.process.find("pid ") == 0);
      CHECK(!answer.details.host.empty());
    }
  }
}

TEST_CASE("a rank that has made no call at all is told so") {
  const auto answers = ask_all({.ranks = 2, .kind = Kind::shm, .timeout = 20s}, [](Communicator& comm) {
    if (comm.rank() == 0) comm.barrier({.timeout = short_deadline});
  });
  CHECK_MESSAGE(says(answers[0], ": it has made no collective call there"), answers[0].text);
}

TEST_CASE("ranks wait for each other in a circle, each with several messages on their way") {
  const auto answers = ask_all({.ranks = 2, .kind = Kind::shm, .timeout = 20s}, [](Communicator& comm) {
    const std::vector<int> data(100'000, 1);
    const MessageOptions soon{.timeout = short_deadline};
    Work first = comm.isend(data, 1 - comm.rank(), soon);
    Work second = comm.isend(data, 1 - comm.rank(), soon);
    second.wait();
  });
  for (const Heard& answer : answers) CHECK_MESSAGE(says(answer, "wait for each other in a circle"), answer.text);
}

/// The calling rank goes on when another rank says so.
void wait_until(const std::atomic<bool>& said) {
  const auto limit = std::chrono::steady_clock::now() + 15s;
  while (!said && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
}

TEST_CASE(
    "a receive whose message stops half-way ends at its deadline, keeps its memory to itself, and the send ends") {
  std::atomic<bool> released{false}, sender_is_over{false}, intact{false};
  const auto answers = ask_all({.ranks = 2, .kind = Kind::tcp, .timeout = 20s}, [&](Communicator& comm) {
    std::vector<int> large(16 << 20, 1);
    int token = 0;
    if (comm.rank() == 0) {
      Work stop = comm.irecv(std::span{&token, 1}, 1, {.tag = 2});
      stop.then([&](const Error*) { wait_until(released); });  // right behind the grant: nobody drives the engine on
      Work send = comm.isend(large, 1, {.tag = 1});
      Work marker = comm.isend(std::span{&token, 1}, 1, {.tag = 3});
      const Heard answer = heard([&] { send.wait(); });
      sender_is_over = true;
      throw Error{answer.code, answer.text, answer.rank};
    }
    comm.recv(std::span{&token, 1}, 0, {.tag = 3});  // the beginning of the large one has come
    Work receive = comm.irecv(large, 0, {.tag = 1, .timeout = short_deadline});
    comm.send(std::span{&token, 1}, 0, {.tag = 2});
    const Heard answer = heard([&] { receive.wait(); });
    std::ranges::fill(large, 7);
    released = true;
    wait_until(sender_is_over);
    intact = std::ranges::count(large, 7) == std::ssize(large);
    throw Error{answer.code, answer.text, answer.rank};
  });
  CHECK_MESSAGE(answers[1].code == ErrorCode::timeout, answers[1].text);
  CHECK_MESSAGE(says(answers[1], "recv of 16777216 x i32 from rank 0 (tag 1)"), answers[1].text);
  CHECK_MESSAGE(answers[0].code == ErrorCode::timeout, answers[0].text);
  CHECK(intact);
}

TEST_CASE("a rank that waits somewhere else is told with where") {
  for (const Kind kind : watched_kinds) {
    const auto answers = ask_all({.ranks = 2, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      std::vector<int> data(10, 1);
      if (comm.rank() == 1) comm.recv(data, 0, {.tag = 7, .timeout = 3 * short_deadline});
      comm.all_reduce(data, sum, {.timeout = short_deadline});
    });
    CHECK_MESSAGE(says(answers[0], "has not called all_reduce #1"), answers[0].text);
    CHECK_MESSAGE(says(answers[0], "it waits in recv of 10 x i32 from rank 0 (tag 7)"), answers[0].text);
  }
}

TEST_CASE("calls in another order are a mismatch that quotes both") {
  for (const Kind kind : watched_kinds) {
    const auto answers = ask_all({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      std::vector<int> data(10, 1);
      if (comm.rank() == 2) comm.barrier();
      comm.broadcast(data, 0);
      comm.barrier();
      comm.barrier();
    });
    for (const Heard& answer : answers) {
      CHECK_MESSAGE(answer.code == ErrorCode::mismatch, answer.text);
      CHECK_MESSAGE(says(answer, "barrier #1"), answer.text);
      CHECK_MESSAGE(says(answer, " called "), answer.text);
    }
  }
}

TEST_CASE("of sub-groups from different lists, the one that fewer ranks gave is the wrong one, before the deadline") {
  const auto check = [](const Heard& answer, int odd) {
    CHECK_MESSAGE(answer.code == ErrorCode::mismatch, answer.text);
    CHECK_MESSAGE(says(answer, "rank " + std::to_string(odd) + " (host "), answer.text);
    CHECK_MESSAGE(says(answer, "made a sub-group of the ranks {"), answer.text);
    CHECK_MESSAGE(says(answer, "all members must give the same list in the same order"), answer.text);
    // The culprit is named first.
    CHECK_MESSAGE(answer.text.find("rank " + std::to_string(odd) + " (host ") < answer.text.find(" while "),
                  answer.text);
  };
  const std::vector<int> right{0, 1, 2, 3, 4};
  // In another order; and without ranks that could tell whose list is the usual one.
  for (const std::vector<int>& wrong : {std::vector<int>{0, 1, 2, 4, 3}, std::vector<int>{0, 4}}) {
    for (const int odd : {0, 4}) {
      const auto answers = ask_all({.ranks = 5, .kind = Kind::shm, .timeout = 30s}, [&](Communicator& comm) {
        Communicator part = comm.subgroup(comm.rank() == odd ? wrong : right);
        part.barrier();
      });
      for (const Heard& answer : answers) check(answer, odd);
    }
  }
}

TEST_CASE("two lists that are equally common are both quoted") {
  for (const Kind kind : watched_kinds) {
    const auto answers = ask_all({.ranks = 3, .kind = kind, .timeout = 30s}, [](Communicator& comm) {
      if (comm.rank() == 2) return;
      Communicator part = comm.rank() == 0 ? comm.subgroup({0, 1}) : comm.subgroup({1, 0});
      part.barrier();
    });
    for (const int rank : {0, 1}) {
      const Heard& answer = answers[static_cast<std::size_t>(rank)];
      CHECK_MESSAGE(answer.code == ErrorCode::mismatch, answer.text);
      CHECK_MESSAGE(says(answer, "of the ranks {1, 0} of the job while"), answer.text);
      CHECK_MESSAGE(says(answer, "of the ranks {0, 1}"), answer.text);
    }
  }
}

TEST_CASE("a receive is told of a peer that waits in a collective, or in nothing, and which message nobody takes") {
  for (const Kind kind : watched_kinds) {
    const int ranks = kind == Kind::mixed ? 3 : 2;
    const auto answers = ask_all({.ranks = ranks, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      std::vector<int> data(10);
      if (comm.rank() == 0) comm.recv(data, 1, {.tag = 9, .timeout = short_deadline});
      comm.barrier();
    });
    for (const Heard& answer : answers) {
      CHECK_MESSAGE(answer.code == ErrorCode::timeout, answer.text);
      CHECK_MESSAGE(says(answer, "recv of 10 x i32 from rank 1 (tag 9)"), answer.text);
      CHECK_MESSAGE(says(answer, "waits in barrier #1"), answer.text);
      CHECK_MESSAGE(!says(answer, "nothing"), answer.text);
      CHECK_MESSAGE(!says(answer, "isend"), answer.text);
    }
  }
  const auto answers = ask_all({.ranks = 2, .kind = Kind::shm, .timeout = 20s}, [](Communicator& comm) {
    std::vector<int> data(10);
    if (comm.rank() == 0) comm.recv(data, 1, {.tag = 6, .timeout = short_deadline});
    if (comm.rank() == 1) comm.send(data, 0, {.tag = 5});
  });
  CHECK_MESSAGE(answers[0].rank == 1, answers[0].text);
  CHECK_MESSAGE(says(answers[0], "it is in no call of tutti"), answers[0].text);
  CHECK_MESSAGE(says(answers[0], "a message of 10 x i32 from rank 1 with tag 5 has come"), answers[0].text);
}

TEST_CASE("a rank is not said to wait in an asynchronous call, and a call made of others is named") {
  const auto answers = ask_all({.ranks = 2, .kind = Kind::shm, .timeout = 20s}, [](Communicator& comm) {
    std::vector<int> data(10);
    if (comm.rank() == 0) {
      comm.recv(data, 1, {.tag = 9, .timeout = short_deadline});
    } else {
      Work pending = comm.irecv(data, 0, {.tag = 3});
      while (!pending.done()) std::this_thread::yield();
    }
  });
  CHECK_MESSAGE(says(answers[0], "recv of 10 x i32 from rank 0 (tag 3) under way"), answers[0].text);
  const auto others = ask_all({.ranks = 2, .kind = Kind::shm, .timeout = 20s}, [](Communicator& comm) {
    std::vector<int> data(10);
    if (comm.rank() == 0) comm.recv(data, 1, {.tag = 9, .timeout = short_deadline});
    if (comm.rank() == 1) const Communicator part = comm.split(0);
  });
  CHECK_MESSAGE(says(others[0], "waits in split(), in its all_gather #1"), others[0].text);
}

TEST_CASE("a call that differs from split() is told from it, and not from its all_gather") {
  for (const Kind kind : watched_kinds) {
    const auto answers = ask_all({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      comm.split(0).barrier();
      if (comm.rank() == 0) comm.barrier();
      if (comm.rank() != 0) const Communicator part = comm.split(1);
    });
    for (const Heard& answer : answers) {
      CHECK_MESSAGE(answer.code == ErrorCode::mismatch, answer.text);
      CHECK_MESSAGE(says(answer, "called barrier #2 with "), answer.text);
      CHECK_MESSAGE(says(answer, "called split(), in its all_gather #2 (2 x i32) with "), answer.text);
    }
  }
  const auto answers = ask_all({.ranks = 2, .kind = Kind::shm, .timeout = short_deadline}, [](Communicator& comm) {
    if (comm.rank() == 0) const Communicator part = comm.split(1);
  });
  CHECK_MESSAGE(says(answers[0], "has not called split(), in its all_gather #1"), answers[0].text);
}

TEST_CASE("the way out of a circle is that of its calls") {
  const auto circle = [](Kind kind, const std::function<void(Communicator&, std::vector<int>&)>& body) {
    const auto answers = ask_all({.ranks = 2, .kind = kind, .timeout = 20s}, [&](Communicator& comm) {
      std::vector<int> data(100'000, 1);  // more than is sent without being asked for
      body(comm, data);
    });
    CHECK_MESSAGE(says(answers[0], "ranks wait for each other in a circle"), answers[0].text);
    return answers[0];
  };
  const Heard receives = circle(Kind::shm, [](Communicator& comm, std::vector<int>& data) {
    comm.recv(data, 1 - comm.rank(), {.timeout = short_deadline});
  });
  CHECK_MESSAGE(says(receives, "let one of them send first"), receives.text);
  for (const Kind kind : {Kind::shm, Kind::tcp}) {
    const Heard tags = circle(kind, [](Communicator& comm, std::vector<int>& data) {
      if (comm.rank() == 0) comm.send(data, 1, {.tag = 5, .timeout = short_deadline});
      if (comm.rank() == 1) comm.recv(data, 0, {.tag = 6, .timeout = short_deadline});
    });
    CHECK_MESSAGE(says(tags, "a message of 100000 x i32 from rank 0 with tag 5 has come"), tags.text);
    CHECK_MESSAGE(says(tags, "give a send and its receive the same tag"), tags.text);
    CHECK_MESSAGE(!says(tags, "isend"), tags.text);
  }
}

TEST_CASE("errors of a sub-group count its ranks, and say which ranks of the job those are") {
  for (const Kind kind : {Kind::shm, Kind::tcp}) {
    std::vector<std::optional<Communicator>> kept(4);  // nobody leaves
    const auto answers = ask_all({.ranks = 4, .kind = kind, .timeout = 20s}, [&](Communicator& comm) {
      if (comm.rank() % 2 == 0) return;
      Communicator& odd = kept[static_cast<std::size_t>(comm.rank())].emplace(comm.subgroup({1, 3}));
      odd.barrier();
      if (comm.rank() == 1) odd.barrier({.timeout = short_deadline});
    });
    CHECK_MESSAGE(answers[1].rank == 1, answers[1].text);
    CHECK_MESSAGE(says(answers[1], " on rank 0 of 2: timed out: rank 1 (rank 3 of the job, host "), answers[1].text);
  }
  // The loss of a process is found for all groups at once, in the ranks of the job.
  const WorldOptions losing{.ranks = 4, .kind = Kind::shm, .timeout = 20s, .inject = "drop:rank=3,op=2"};
  const auto answers = ask_all(losing, [](Communicator& comm) {
    if (comm.rank() % 2 == 0) {
      for (int i = 0; i < 2; ++i) comm.barrier({.algorithm = "dissemination"});
      return;
    }
    Communicator odd = comm.subgroup({1, 3});
    CHECK(!heard([&] {
             for (int i = 0; i < 3; ++i) comm.barrier({.algorithm = "dissemination"});
           }).text.empty());
    odd.barrier();
  });
  // Where a link to it notices first, the failure of the whole communicator may come before that of the sub-group.
  const bool is_right = says(answers[1], " on rank 0 of 2: rank 1 (rank 3 of the job, host ") ||
                        says(answers[1],
                             " on rank 0 of 2: the communicator it was made from has failed (ranks are "
                             "numbered as there): rank 3 (host ");
  CHECK_MESSAGE(is_right, answers[1].text);
}

TEST_CASE("a rank that has left is named to those that still wait for it, long before their deadline") {
  for (const Kind kind : watched_kinds) {
    std::vector<Heard> answers(3);
    run_ranks({.ranks = 3, .kind = kind, .timeout = 30s}, [&](Communicator& comm) {
      std::vector<int> data(10, 1);
      if (comm.rank() == 1) return;
      const auto begin = std::chrono::steady_clock::now();
      answers[static_cast<std::size_t>(comm.rank())] = heard([&] { comm.all_reduce(data, sum); });
      CHECK(std::chrono::steady_clock::now() - begin < 10s);
    });
    for (const int rank : {0, 2}) {
      const Heard& answer = answers[static_cast<std::size_t>(rank)];
      CHECK_MESSAGE(answer.code == ErrorCode::peer_lost, answer.text);
      CHECK_MESSAGE(answer.rank == 1, answer.text);
    }
  }
}

TEST_CASE("ranks that send to each other and wait are told their circle") {
  for (const Kind kind : watched_kinds) {
    const auto answers = ask_all({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      std::vector<int> data(100'000, 1);  // more than is sent without being asked for
      comm.barrier();
      comm.send(data, (comm.rank() + 1) % 3, {.timeout = short_deadline});
    });
    for (const Heard& answer : answers) {
      CHECK_MESSAGE(answer.code == ErrorCode::timeout, answer.text);
      CHECK_MESSAGE(says(answer, "ranks wait for each other in a circle"), answer.text);
      for (const char* link : {"to rank 0 (tag 0)", "to rank 1 (tag 0)", "to rank 2 (tag 0)"})
        CHECK_MESSAGE(says(answer, link), answer.text);
    }
  }
}

TEST_CASE("an abort reaches everybody, sub-groups too, with its reason, and once is enough") {
  for (const Kind kind : watched_kinds) {
    const auto answers = ask_all({.ranks = 4, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      Communicator pair = comm.split(comm.rank() / 2);
      if (comm.rank() == 3) {
        const auto begin = std::chrono::steady_clock::now();
        comm.abort("the loss is not a number");
        comm.abort("again");
        CHECK(std::chrono::steady_clock::now() - begin < 10s);  // it waits for nobody: the calls have 20 s
      }
      std::vector<int> data(10, 1);
      // Ranks 0 and 1 talk to each other only: they cannot learn it from a link.
      for (;;) pair.all_reduce(data, sum);
    });
    for (const Heard& answer : answers) {
      CHECK_MESSAGE(answer.code == ErrorCode::aborted, answer.text);
      CHECK_MESSAGE(says(answer, "aborted the communicator: the loss is not a number"), answer.text);
      CHECK_MESSAGE(says(answer, "rank 3 ("), answer.text);
    }
    // The rank is one of the pair, or of all ranks where split() had not returned.
    CHECK((answers[2].rank == 1 || answers[2].rank == 3));
    CHECK((answers[0].rank == -1 || answers[0].rank == 3));
  }
}

TEST_CASE("survivors go on: shrink gives them a communicator without those who left or were given up") {
  for (const Kind kind : watched_kinds) {
    run_ranks({.ranks = 5, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      if (comm.rank() == 1 || comm.rank() == 4) return;
      std::vector<int> data(1000, 1);
      CHECK(heard([&] { comm.all_reduce(data, sum); }).code == ErrorCode::peer_lost);
      Communicator rest = comm.shrink();
      CHECK(rest.size() == 3);
      CHECK(rest.rank() == std::vector<int>{0, -1, 1, 2}[static_cast<std::size_t>(comm.rank())]);
      std::vector<int> fresh(1000, 1);
      rest.all_reduce(fresh, sum);
      CHECK(fresh[999] == 3);
      Communicator again = rest.shrink();  // nobody was lost
      again.all_reduce(fresh, sum);
      CHECK(fresh[0] == 9);
      // The old communicator stays what it was.
      CHECK(heard([&] { comm.barrier(); }).code == ErrorCode::peer_lost);
    });
  }
}

TEST_CASE("a shrink that somebody does not call ends at its deadline and names him") {
  const auto answers = ask_all({.ranks = 3, .kind = Kind::shm, .timeout = 20s}, [](Communicator& comm) {
    comm.barrier();  // a rank that is slow to start is not to be named
    if (comm.rank() == 2) return;
    const Communicator rest = comm.shrink(short_deadline);
  });
  for (const int rank : {0, 1}) {
    CHECK_MESSAGE(answers[static_cast<std::size_t>(rank)].code == ErrorCode::timeout,
                  answers[static_cast<std::size_t>(rank)].text);
    CHECK_MESSAGE(says(answers[static_cast<std::size_t>(rank)], "waited until the deadline for rank 2 ("),
                  answers[static_cast<std::size_t>(rank)].text);
  }
}

}  // namespace
}  // namespace tutti::testing
