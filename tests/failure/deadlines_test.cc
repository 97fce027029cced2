// Deadlines, and messages whose sender has left.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/failure/heard.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

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
      constexpr int count = 40;  // more than a lump of credit
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

/// Rank 3 comes late, so that rank 2 has no room on its board for the reduction. Rank 1 need not wait for either.
TEST_CASE("a rank that waits for room on a board does not take one that is through and has left for lost") {
  std::promise<void> left, failed;
  std::vector<std::string> errors(4);
  run_ranks({.ranks = 4, .kind = Kind::shm, .timeout = 20s}, [&](Communicator& comm) {
    const int rank = comm.rank();
    std::vector<std::byte> large(1024 * 1024);
    std::vector<float> part(4096, 1), result(4096);
    comm.barrier();
    if (rank == 3) {
      left.get_future().wait_for(20s);
      failed.get_future().wait_for(1s);  // it is asked about after 0.2 s
    }
    errors[static_cast<std::size_t>(rank)] = error_of([&] {
      comm.broadcast(large, 2, {.algorithm = "direct"});
      comm.reduce(part, result, sum, 0, {.algorithm = "direct"});
    });
    if (rank == 1) {
      { const Communicator last = std::move(comm); }
      left.set_value();
    }
    if (rank == 2 && !errors[2].empty()) failed.set_value();
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("a deadline is kept while something else keeps the links busy") {
  for (const Kind kind : watched_kinds) {
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
        comm.broadcast(said, 0);
        stop = said[0];
      }
      CHECK(std::chrono::steady_clock::now() - begin < 10s);
      if (comm.rank() == 0) CHECK(never.error() != nullptr);
    });
  }
}

TEST_CASE("a loop of short probes hears that the rank has left") {
  for (const Kind kind : watched_kinds) {
    Heard answer;
    run_ranks({.ranks = 2, .kind = kind, .timeout = 30s}, [&](Communicator& comm) {
      if (comm.rank() == 1) return;
      const auto end = std::chrono::steady_clock::now() + 20s;
      do answer = heard([&] { comm.probe(1, {.timeout = 50ms}); });
      while (answer.code == ErrorCode::timeout && std::chrono::steady_clock::now() < end);
    });
    CHECK_MESSAGE(answer.code == ErrorCode::peer_lost, answer.text);
    CHECK_MESSAGE(answer.rank == 1, answer.text);
  }
}

TEST_CASE("limits that mean for ever are not cut to nothing, and negative ones are refused") {
  run_ranks({.ranks = 2, .timeout = 20s}, [](Communicator& comm) {
    std::vector<int> data(10, 1);
    comm.all_reduce(data, sum, {.timeout = std::chrono::milliseconds::max()});
    CHECK(data[0] == 2);
    Work work = comm.async().all_reduce(data, sum);
    CHECK(work.wait_for(std::chrono::nanoseconds::max()));
    CHECK(heard([&] { comm.all_reduce(data, sum, {.timeout = -1ms}); }).code == ErrorCode::invalid_argument);
    CHECK(heard([&] { comm.send(data, 1 - comm.rank(), {.timeout = -1ms}); }).code == ErrorCode::invalid_argument);
    comm.barrier();
  });
}
}  // namespace
}  // namespace tutti::testing
