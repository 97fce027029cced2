// A failure ends every pending call with an error that says what happened; nothing hangs.

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a rank that never calls makes the others time out, and they say whom they waited for") {
  for (const Kind kind : all_kinds) {
    std::promise<void> others_done;
    std::shared_future<void> wait_for_others = others_done.get_future().share();
    run_ranks({.ranks = 2, .kind = kind, .timeout = 10s}, [&](Communicator& comm) {
      if (comm.rank() == 1) {
        wait_for_others.wait_for(20s);
        return;
      }
      std::vector<int> data(100, 1);
      ErrorCode code{};
      const auto begin = std::chrono::steady_clock::now();
      const std::string what = error_of([&] { comm.all_reduce(data, sum, {.timeout = 300ms}); }, &code);
      CHECK(std::chrono::steady_clock::now() - begin < 5s);
      others_done.set_value();
      CHECK_MESSAGE(code == ErrorCode::timeout, what);
      CHECK_MESSAGE(what.find("rank 1") != std::string::npos, what);
      CHECK_MESSAGE(what.find("all_reduce #1") != std::string::npos, what);
      // The first error stays: later calls quote it and do not wait.
      CHECK(error_of([&] { comm.barrier(); }).find("timed out") != std::string::npos);
    });
  }
}

TEST_CASE("ranks of a row hear of one that never comes, wherever it stands, and of one that gives up") {
  for (const Kind kind : {Kind::inproc, Kind::shm}) {
    for (int absent = 0; absent < 4; ++absent) {
      for (const bool aborts : {false, true}) {
        CAPTURE(absent);
        std::promise<void> others_done;
        std::shared_future<void> wait_for_others = others_done.get_future().share();
        std::atomic<int> waiting{3};
        run_ranks({.ranks = 4, .kind = kind, .timeout = 20s}, [&](Communicator& comm) {
          if (comm.rank() == absent) {
            if (aborts) comm.abort("no more");
            wait_for_others.wait_for(30s);
            return;
          }
          std::vector<float> data(200'000, 1);
          ErrorCode code{};
          const auto begin = std::chrono::steady_clock::now();
          const std::string what =
              error_of([&] { comm.all_reduce(data, sum, {.algorithm = "chain", .timeout = 500ms}); }, &code);
          CHECK(std::chrono::steady_clock::now() - begin < 8s);
          if (--waiting == 0) others_done.set_value();
          CHECK_MESSAGE(code == (aborts ? ErrorCode::aborted : ErrorCode::timeout), what);
          CHECK_MESSAGE(what.find("rank " + std::to_string(absent)) != std::string::npos, what);
        });
      }
    }
  }
}

TEST_CASE("a thread that comes late hears why the others have gone") {
  std::atomic<int> gone{0};
  run_ranks({.ranks = 3, .kind = Kind::inproc, .timeout = 20s}, [&](Communicator& comm) {
    ErrorCode code{};
    if (comm.rank() != 0) {
      error_of([&] { comm.barrier({.timeout = 300ms}); });
      { const Communicator ended = std::move(comm); }
      ++gone;
      return;
    }
    const auto limit = std::chrono::steady_clock::now() + 15s;
    while (gone < 2 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    const std::string what = error_of([&] { comm.barrier(); }, &code);
    CHECK_MESSAGE(code == ErrorCode::timeout, what);
    CHECK_MESSAGE(what.find("timed out after 0.3 s waiting for rank 0") != std::string::npos, what);
  });
}

TEST_CASE("a communicator destroyed with work pending fails that work at once, here and at the peers") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 3, .kind = kind, .timeout = 20s}, [](Communicator& comm) {
      Communicator part = comm.split(0);
      std::vector<int> data(50'000, 1);
      if (comm.rank() == 1) {
        Work pending = part.irecv(data, 0);
        { const Communicator gone = std::move(part); }
        REQUIRE(pending.done());
        REQUIRE(pending.error() != nullptr);
        CHECK(pending.error()->code() == ErrorCode::aborted);
      } else {
        ErrorCode code{};
        const std::string what =
            error_of([&] { part.all_reduce(data, sum, {.algorithm = "ring", .timeout = 15s}); }, &code);
        CHECK_MESSAGE((code == ErrorCode::aborted || code == ErrorCode::peer_lost), what);
      }
      comm.barrier();  // the parent is another group: it goes on
    });
  }
}

TEST_CASE("a rank's own long copy ends with its call") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 2, .kind = kind, .boards = false, .timeout = 20s}, [](Communicator& comm) {
      Communicator part = comm.split(0);
      if (comm.rank() == 0) {
        const std::vector<int> own(2'000'000, 1);
        std::vector<int> all(2 * own.size());
        Work pending = part.async().gather(own, all, 0);
        { const Communicator gone = std::move(part); }
        REQUIRE(pending.error() != nullptr);
        CHECK(pending.error()->code() == ErrorCode::aborted);
        const std::vector<int> before = all;
        for (int pass = 0; pass < 10; ++pass) CHECK_FALSE(comm.iprobe(1));
        comm.barrier();
        CHECK(all == before);
      } else {
        comm.barrier();
      }
      comm.barrier();
    });
  }
}

TEST_CASE("destroying a communicator with all work done is clean, again and again") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 4, .kind = kind}, [](Communicator& comm) {
      for (int round = 0; round < 20; ++round) {
        Communicator part = comm.split(comm.rank() % 2);
        std::vector<int> data(2000, 1);
        part.all_reduce(data, sum);
        CHECK(data[1999] == 2);
      }
    });
  }
}

}  // namespace
}  // namespace tutti::testing
