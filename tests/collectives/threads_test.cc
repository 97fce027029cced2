// Several threads of a rank call on one communicator at once.

#include <doctest/doctest.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/world.h"

namespace tutti::testing {
namespace {

/// Runs body(i) for 0 <= i < count in a thread each; the first exception is thrown here.
void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (...) {
        failures[static_cast<std::size_t>(i)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

/// Lets threads act in a fixed order.
class Turns {
 public:
  template <class Body>
  void take(int turn, Body body) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return next_ == turn; });
    body();
    ++next_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int next_ = 0;
};

}  // namespace

TEST_CASE("threads that make the same calls at once need no order: each call is numbered as it starts") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 3, .kind = kind}, [](Communicator& comm) {
      run_threads(3, [&](int) {
        std::vector<int> data(300);
        for (int round = 0; round < 100; ++round) {
          data.assign(300, comm.rank() + 1);
          comm.all_reduce(data, sum);
          REQUIRE(data.front() == 6);
          REQUIRE(data.back() == 6);
        }
      });
      comm.barrier();
    });
  }
}

TEST_CASE("threads that take turns start different collectives in one order and wait at the same time") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 3, .kind = kind}, [](Communicator& comm) {
      constexpr int threads = 3;
      constexpr int rounds = 40;
      Turns turns;
      run_threads(threads, [&](int thread) {
        for (int round = 0; round < rounds; ++round) {
          std::vector<double> data(static_cast<std::size_t>(1 + 700 * thread), comm.rank() == thread ? round : 0);
          Work work;
          turns.take(round * threads + thread, [&] {
            if (thread == 1)
              work = comm.async().broadcast(data, 1);
            else
              work = comm.async().all_reduce(data, max);
          });
          work.wait();
          REQUIRE(data.front() == round);
          REQUIRE(data.back() == round);
        }
      });
    });
  }
}

TEST_CASE("threads exchange messages under tags of their own, beside another one's collectives") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 3, .kind = kind}, [](Communicator& comm) {
      const int next = (comm.rank() + 1) % comm.size();
      const int previous = (comm.rank() + comm.size() - 1) % comm.size();
      run_threads(4, [&](int thread) {
        for (int round = 0; round < 60; ++round) {
          if (thread == 0) {
            std::vector<int> data(50, 1);
            comm.all_reduce(data, sum);
            REQUIRE(data[49] == 3);
            continue;
          }
          const std::vector<int> mine(static_cast<std::size_t>(thread) * 9000, comm.rank() * 1000 + round);
          std::vector<int> theirs(mine.size());
          Work sent = comm.isend(mine, next, {.tag = thread});
          comm.recv(theirs, previous, {.tag = thread});
          sent.wait();
          REQUIRE(theirs.back() == previous * 1000 + round);
        }
      });
    });
  }
}

TEST_CASE("threads make sub-groups of one communicator at once, of different members") {
  run_ranks({.ranks = 4, .kind = Kind::shm}, [](Communicator& comm) {
    run_threads(2, [&](int thread) {
      for (int round = 0; round < 20; ++round) {
        // Thread 0: neighbours {0, 1} and {2, 3}; thread 1: {0, 2} and {1, 3}.
        const int partner = thread == 0 ? comm.rank() ^ 1 : comm.rank() ^ 2;
        Communicator pair = comm.subgroup({std::min(comm.rank(), partner), std::max(comm.rank(), partner)});
        std::vector<int> data{comm.rank()};
        pair.all_reduce(data, sum);
        REQUIRE(data[0] == comm.rank() + partner);
      }
    });
    comm.barrier();
  });
}

}  // namespace tutti::testing
