// Ranks as threads of a program, as programs get them.

#include "tutti/run_threads.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/world.h"

namespace tutti::testing {
namespace {

struct Own : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace

TEST_CASE("every rank runs once, in one world") {
  for (const int ranks : {1, 2, 5}) {
    CAPTURE(ranks);
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(ranks));
    run_threads(ranks, [&](Communicator& comm) {
      ++runs[static_cast<std::size_t>(comm.rank())];
      CHECK(comm.size() == ranks);
      CHECK(comm.local_rank() == comm.rank());
      CHECK(comm.local_size() == ranks);
      std::vector<int> data(100'000, comm.rank());
      comm.all_reduce(data, sum);
      CHECK(data.back() == ranks * (ranks - 1) / 2);
      if (ranks > 1) CHECK(comm.transport_to((comm.rank() + 1) % ranks) == "inproc");
      Communicator half = comm.split(comm.rank() % 2);
      half.barrier();
    });
    for (const auto& count : runs) CHECK(count == 1);
  }
}

TEST_CASE("what is to be called is never empty") {
  const auto refused = [](const char* words, const auto& call) {
    ErrorCode code{};
    CHECK(error_of(call, &code).find(words) != std::string::npos);
    CHECK(code == ErrorCode::invalid_argument);
  };
  refused("run_threads: the function is empty", [] { run_threads(2, nullptr); });
  run_threads(1, [&](Communicator& comm) {
    int value = 1;
    const Op own{data_type_of<int>, Op::Function{}};
    refused("has no function", [&] { comm.all_reduce(std::span{&value, 1}, own); });
    refused("has no function", [&] { comm.all_reduce(std::span{&value, 1}, Op{OpKind::user}); });
    Work work = comm.async().barrier();
    refused("then: the function is empty", [&] { work.then(nullptr); });
  });
}

TEST_CASE("threads of the library handle no signals") {
  struct Threads {
    int all = 0;
    int handle_signals = 0;
  };
  const auto count = [] {
    Threads threads;
    for (const auto& task : std::filesystem::directory_iterator{"/proc/self/task"}) {
      std::ifstream file{task.path() / "status"};
      for (std::string line; std::getline(file, line);) {
        if (!line.starts_with("SigBlk:")) continue;
        ++threads.all;
        threads.handle_signals += std::stoull(line.substr(7), nullptr, 16) == 0 ? 1 : 0;
      }
    }
    return threads;
  };
  const Threads before = count();
  run_threads(2, [&](Communicator& comm) {
    comm.async().barrier().wait();  // the first that needs the thread that helps
    comm.barrier();
    const Threads now = count();
    CHECK(now.all >= before.all + 4);
    CHECK(now.handle_signals == before.handle_signals + 2);
    comm.barrier();
  });
}

TEST_CASE("an exception of one rank ends all ranks, and is thrown again unchanged") {
  for (const int culprit : {0, 2}) {
    CAPTURE(culprit);
    std::atomic<int> aborted{0};
    const auto body = [&](Communicator& comm) {
      if (comm.rank() == culprit) throw Own{"my own"};
      int value = 0;
      ErrorCode code{};
      const std::string what = error_of([&] { comm.recv(std::span{&value, 1}, any_source); }, &code);
      if (code == ErrorCode::aborted && what.find("my own") != std::string::npos) ++aborted;
      comm.barrier();  // throws, too: a consequence
    };
    CHECK_THROWS_WITH_AS(run_threads(3, body), "my own", Own);
    CHECK(aborted == 2);
  }
}

TEST_CASE("the first cause is thrown, not what others report of it") {
  for (int i = 0; i < 20; ++i) {
    try {
      run_threads(3, [](Communicator& comm) {
        std::vector<int> data(comm.rank() == 1 ? 3U : 4U);
        comm.all_reduce(data, sum, {.algorithm = "ring"});
        comm.barrier();
      });
      FAIL("the mismatch went unnoticed");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::mismatch);
      CHECK_FALSE(error.details().reported);
    }
  }
}

TEST_CASE("options apply, and what makes no sense is refused") {
  CHECK_THROWS_WITH_AS(run_threads(0, [](Communicator&) {}), doctest::Contains("0 ranks are too few"), Error);
  const auto began = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(run_threads(2,
                              [](Communicator& comm) {
                                int value = 0;
                                if (comm.rank() == 0) comm.recv(std::span{&value, 1}, 1);
                                if (comm.rank() == 1) comm.recv(std::span{&value, 1}, 0);
                              },
                              {.timeout = std::chrono::milliseconds{100}}),
                  Error);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds{60});
  CHECK_THROWS_WITH_AS(run_threads(2, [](Communicator& comm) { (void)comm.shrink(); }),
                       doctest::Contains("nobody watches"), Error);
}

}  // namespace tutti::testing
