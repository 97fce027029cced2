// Who is blamed, in which words, where no data is wrong: ranks that stay away, leave, wait for each other, or give up.

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

constexpr Kind watched[] = {Kind::shm, Kind::tcp, Kind::mixed};

struct Heard {
  ErrorCode code{};
  int rank = -1;
  std::string text;
  FailureDetails details;
};

Heard heard(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.rank(), error.what(), error.details()};
  }
  return {};
}

bool says(const Heard& what, const std::string& words) { return what.text.find(words) != std::string::npos; }

/// Runs `body` on every rank and keeps all communicators until the last one is done with it.
std::vector<Heard> ask_all(WorldOptions options, const std::function<void(Communicator&)>& body) {
  std::vector<Heard> answers(static_cast<std::size_t>(options.ranks));
  options.leave_together = true;
  run_ranks(options,
            [&](Communicator& comm) { answers[static_cast<std::size_t>(comm.rank())] = heard([&] { body(comm); }); });
  return answers;
}

TEST_CASE("who is alive but has not called is told apart from who is dead") {
  for (const Kind kind : watched) {
    const auto answers = ask_all({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      std::vector<int> data(10, 1);
      comm.all_reduce(data, sum);
      if (comm.rank() == 1) return;
      comm.all_reduce(data, sum, {.timeout = 1s});
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
      CHECK(!answer.details.algorithm.empty());
      CHECK(answer.details.process.find("pid ") == 0);
      CHECK(!answer.details.host.empty());
    }
  }
}

TEST_CASE("a rank that waits somewhere else is told with where") {
  for (const Kind kind : watched) {
    const auto answers = ask_all({.ranks = 2, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      std::vector<int> data(10, 1);
      if (comm.rank() == 1) comm.recv(data, 0, {.tag = 7, .timeout = 3s});
      comm.all_reduce(data, sum, {.timeout = 1s});
    });
    CHECK_MESSAGE(says(answers[0], "has not called all_reduce #1"), answers[0].text);
    CHECK_MESSAGE(says(answers[0], "it waits in recv of 10 x i32 from rank 0 (tag 7)"), answers[0].text);
  }
}

TEST_CASE("calls in another order are a mismatch that quotes both") {
  for (const Kind kind : watched) {
    const auto answers = ask_all({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      std::vector<int> data(10, 1);
      if (comm.rank() == 2) comm.barrier();
      comm.broadcast(data);
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

TEST_CASE("sub-groups from different lists are a mismatch, found before the deadline") {
  for (const Kind kind : watched) {
    const auto answers = ask_all({.ranks = 3, .kind = kind, .timeout = 30s}, [](Communicator& comm) {
      if (comm.rank() == 2) return;
      Communicator part = comm.rank() == 0 ? comm.subgroup({0, 1}) : comm.subgroup({1, 0});
      part.barrier();
    });
    for (const int rank : {0, 1}) {
      const Heard& answer = answers[static_cast<std::size_t>(rank)];
      CHECK_MESSAGE(answer.code == ErrorCode::mismatch, answer.text);
      CHECK_MESSAGE(says(answer, "made a sub-group of the ranks"), answer.text);
    }
  }
}

TEST_CASE("who has left is named to those who still wait for it, long before their deadline") {
  for (const Kind kind : watched) {
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
  for (const Kind kind : watched) {
    const auto answers = ask_all({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      std::vector<int> data(100'000, 1);  // more than is sent without being asked for
      comm.send(data, (comm.rank() + 1) % 3, {.timeout = 500ms});
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
  for (const Kind kind : watched) {
    const auto answers = ask_all({.ranks = 4, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      Communicator pair = comm.split(comm.rank() / 2);
      if (comm.rank() == 3) {
        const auto begin = std::chrono::steady_clock::now();
        comm.abort("the loss is not a number");
        comm.abort("again");
        CHECK(std::chrono::steady_clock::now() - begin < 1s);
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
    // In the ranks of the pair, or of all for who was not done with split().
    CHECK((answers[2].rank == 1 || answers[2].rank == 3));
    CHECK((answers[0].rank == -1 || answers[0].rank == 3));
  }
}

TEST_CASE("survivors go on: shrink gives them a communicator without those who left or were given up") {
  for (const Kind kind : watched) {
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
    if (comm.rank() == 2) return;
    const Communicator rest = comm.shrink(400ms);
  });
  for (const int rank : {0, 1}) {
    CHECK_MESSAGE(answers[static_cast<std::size_t>(rank)].code == ErrorCode::timeout,
                  answers[static_cast<std::size_t>(rank)].text);
    CHECK_MESSAGE(says(answers[static_cast<std::size_t>(rank)], "waited in vain for rank 2 ("),
                  answers[static_cast<std::size_t>(rank)].text);
  }
}

TEST_CASE("a message that is credited after its sender has left does no harm") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 2, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      std::vector<std::byte> data(16 * 1024);
      if (comm.rank() == 0) {
        for (int i = 0; i < 20; ++i) comm.send(data, 1);
        return;
      }
      for (int i = 0; i < 20; ++i) comm.recv(data, 0);
    });
  }
}

TEST_CASE("nor while another receive waits for whoever may still come") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      std::optional<Communicator> lane = comm.split(0);
      std::vector<std::byte> message(16 * 1024);
      constexpr int count = 24;  // more than a lump of credit
      if (comm.rank() == 0) {
        for (int i = 0; i < count; ++i) lane->send(message, 1);
        lane.reset();
        comm.send(message, 1);
      } else if (comm.rank() == 1) {
        std::vector<std::byte> other(message.size());
        Work last = lane->irecv(other, any_source, {.tag = 1});
        for (int i = 0; i < 8; ++i) lane->recv(message, 0);
        comm.recv(message, 0);
        for (int i = 8; i < count; ++i) lane->recv(message, 0);
        comm.send(message, 2);
        last.wait();
      } else {
        comm.recv(message, 1);
        lane->send(message, 1, {.tag = 1});
      }
    });
  }
}

TEST_CASE("a deadline is kept while something else keeps the links busy") {
  for (const Kind kind : watched) {
    run_ranks({.ranks = 2, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      Communicator other = comm.split(0);
      std::vector<int> data(10, 1);
      Work never = comm.rank() == 0 ? other.irecv(data, 1, {.tag = 1, .timeout = 1s}) : Work{};
      const auto begin = std::chrono::steady_clock::now();
      std::vector<int> sums(10, 1);
      int stop = 0;
      while (stop == 0 && std::chrono::steady_clock::now() - begin < 15s) {
        comm.all_reduce(sums, max);
        stop = comm.rank() == 0 && never.done() ? 1 : 0;
        std::vector<int> said{stop};
        comm.broadcast(said);
        stop = said[0];
      }
      CHECK(std::chrono::steady_clock::now() - begin < 10s);
      if (comm.rank() == 0) CHECK(never.error() != nullptr);
    });
  }
}

TEST_CASE("limits that mean for ever are not cut to nothing, and negative ones are refused") {
  run_ranks({.ranks = 2, .timeout = 20s}, [](Communicator& comm) {
    std::vector<int> data(10, 1);
    comm.all_reduce(data, sum, {.timeout = std::chrono::milliseconds::max()});
    CHECK(data[0] == 2);
    Work work = comm.all_reduce_async(data, sum);
    CHECK(work.wait_for(std::chrono::nanoseconds::max()));
    CHECK(heard([&] { comm.all_reduce(data, sum, {.timeout = -1ms}); }).code == ErrorCode::invalid_argument);
    CHECK(heard([&] { comm.send(data, 1 - comm.rank(), {.timeout = -1ms}); }).code == ErrorCode::invalid_argument);
    comm.barrier();
  });
}

}  // namespace
}  // namespace tutti::testing
