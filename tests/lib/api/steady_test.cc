// Once warm, a call allocates nothing.

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/host.h"
#include "tests/support/allocations.h"
#include "tests/support/system_call_count.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using transport::testing::allocations;

/// The least of some batches of calls: in one of them a queue may still grow, when a rank runs further ahead than ever
/// before, and the ranks are threads of this process, so that what another one does beside its calls counts, too.
template <class Body>
std::size_t allocations_of(Body&& body) {
  for (int warm_up = 0; warm_up < 50; ++warm_up) body();
  std::size_t fewest = ~std::size_t{0};
  for (int batch = 0; batch < 20; ++batch) {
    const std::size_t before = allocations();
    for (int round = 0; round < 25; ++round) body();
    fewest = std::min(fewest, allocations() - before);
  }
  return fewest;
}

TEST_CASE("blocking collectives allocate nothing once warm") {
  for (const Kind kind : {Kind::inproc, Kind::shm, Kind::tcp}) {
    CAPTURE(static_cast<int>(kind));
    run_ranks({.ranks = 3, .kind = kind}, [](Communicator& comm) {
      std::vector<float> data(1000, 1.0F), other(1000);
      std::vector<float> all(3000), others(3000);
      CHECK(allocations_of([&] { comm.all_reduce(data, max); }) == 0);
      CHECK(allocations_of([&] { comm.all_reduce(data, max, {.algorithm = "ring"}); }) == 0);
      CHECK(allocations_of([&] { comm.reduce(data, max, 1); }) == 0);
      CHECK(allocations_of([&] { comm.broadcast(data, 1); }) == 0);
      CHECK(allocations_of([&] { comm.all_gather(data, all); }) == 0);
      CHECK(allocations_of([&] { comm.reduce_scatter(all, data, max); }) == 0);
      CHECK(allocations_of([&] { comm.scatter(all, data, 1); }) == 0);
      CHECK(allocations_of([&] { comm.gather(data, all, 1); }) == 0);
      CHECK(allocations_of([&] { comm.all_to_all(all, others); }) == 0);
      CHECK(allocations_of([&] { comm.scan(data, other, max); }) == 0);
      CHECK(allocations_of([&] { comm.exclusive_scan(data, other, max); }) == 0);
      CHECK(allocations_of([&] { comm.barrier(); }) == 0);
    });
  }
}

/// Threads of this machine that run or want to.
int runnable_threads() {
  std::ifstream file{"/proc/loadavg"};
  std::string skipped;
  int runnable = 0;
  file >> skipped >> skipped >> skipped >> runnable;
  return runnable;
}

#if defined(__has_feature)
constexpr bool is_instrumented = __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer);
#elif defined(__SANITIZE_ADDRESS__)
constexpr bool is_instrumented = true;
#else
constexpr bool is_instrumented = false;
#endif

/// What both ranks of a batch share. Rank 0 counts and decides.
struct Batch {
  std::barrier<> together{2};
  std::atomic<std::uint64_t> calls{0};
  std::atomic<bool> was_last{false};
};

/// How a rank waits in a call for one that has much to copy: it gives its core away, and where the kernels are slow,
/// being instrumented, it looks at its sockets as well, so that system calls tell nothing.
enum class Waiting { briefly, yielding, looking_around };

/// Some batch of calls, on both ranks at once, without a system call or an allocation. What is the way of `waiting` is
/// not counted. A rank that has to wait for the other because something else has its core may yield and sleep, so not
/// every batch is as the path itself is; and where that was so all the time, system calls tell nothing.
template <class Call>
void require_clean_batch(Communicator& comm, Batch& both, Waiting waiting, Call&& call) {
  constexpr int calls_in_batch = 5;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  for (int warm_up = 0; warm_up < 50; ++warm_up) call();
  std::uint64_t fewest = ~std::uint64_t{0};
  std::size_t fewest_allocations = ~std::size_t{0};
  int last = -1;
  int samples = 0, crowded = 0;
  both.was_last = false;
  for (int batch = 0; !both.was_last; ++batch) {
    if (batch % 100 == 0) {
      ++samples;
      crowded += runnable_threads() > available_cores() ? 1 : 0;
    }
    both.together.arrive_and_wait();
    both.calls = 0;
    const std::size_t allocated = allocations();
    both.together.arrive_and_wait();
    call();  // the two are now close to each other
    {
      SystemCallCount counting;
      for (int i = 0; i < calls_in_batch; ++i) call();
      if (waiting != Waiting::looking_around)
        both.calls += counting.count() - (waiting == Waiting::yielding ? counting.yield_count() : 0);
      if (counting.count() > 0) last = counting.last();
    }
    both.together.arrive_and_wait();
    if (comm.rank() == 0) {
      fewest = std::min(fewest, both.calls.load());
      fewest_allocations = std::min(fewest_allocations, allocations() - allocated);
      both.was_last = fewest + fewest_allocations == 0 || std::chrono::steady_clock::now() > until;
    }
    both.together.arrive_and_wait();
  }
  both.together.arrive_and_wait();  // before the next one begins
  if (comm.rank() != 0) return;
  CAPTURE(last);
  CHECK((fewest == 0 || 4 * crowded > samples));
  CHECK(fewest_allocations == 0);
}

TEST_CASE("a persistent call that is started while others are late does not wait for them") {
  const bool can_count = SystemCallCount{}.works();
  run_ranks({.ranks = 2, .kind = Kind::shm}, [&](Communicator& comm) {
    std::vector<float> data(1, 1.0F);
    auto persistent = comm.prepare().all_reduce(data, sum);
    persistent.start();  // makes the helper
    persistent.wait();
    for (int round = 0; round < 50; ++round) {
      char token = 0;
      if (comm.rank() == 0) {
        const SystemCallCount counting;
        persistent.start();
        if (can_count) CHECK(counting.yield_count() == 0);
        comm.send(std::span{&token, 1}, 1);
      } else {
        comm.recv(std::span{&token, 1}, 0);
        persistent.start();
      }
      persistent.wait();
    }
  });
}

TEST_CASE("system calls are counted") {
  const SystemCallCount counting;
  if (!counting.works()) return;
  for (int i = 0; i < 3; ++i) ::syscall(SYS_getppid);
  CHECK(counting.count() == 3);
  CHECK(counting.last() == SYS_getppid);
}

TEST_CASE("with a core per rank, calls over shared memory need neither the kernel nor the heap") {
  const bool can_count = SystemCallCount{}.works();
  if (!can_count || available_cores() < 2) {
    MESSAGE("skipped: " << (can_count ? "two ranks share a core" : "the kernel counts no system calls here"));
    return;
  }
  Batch both;
  run_ranks({.ranks = 2, .kind = Kind::shm}, [&](Communicator& comm) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{256}, std::size_t{16'384}, std::size_t{262'144}}) {
      CAPTURE(count);
      std::vector<float> in(count, 1.0F), out(count);
      const Waiting waiting = count <= 256                        ? Waiting::briefly
                              : is_instrumented && count > 16'384 ? Waiting::looking_around
                                                                  : Waiting::yielding;
      require_clean_batch(comm, both, waiting, [&] { comm.all_reduce(in, out, sum); });
      auto persistent = comm.prepare().all_reduce(in, out, sum);
      require_clean_batch(comm, both, waiting, [&] { persistent.run(); });
    }
    require_clean_batch(comm, both, Waiting::briefly, [&] { comm.barrier(); });
    const int other = 1 - comm.rank();
    std::vector<float> out(256, 1.0F), in(256);
    require_clean_batch(comm, both, Waiting::briefly, [&] {
      const Work sending = comm.isend(out, other);
      comm.recv(in, other);
    });
  });
}

}  // namespace
}  // namespace tutti::testing
