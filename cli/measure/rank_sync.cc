#include "cli/measure/rank_sync.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "cli/measure/pause.h"

namespace tutti::cli::measure {
namespace {

/// Microseconds in which every rank has seen the common start, even if it has just begun to yield its core.
constexpr double until_start = 2;
constexpr double until_start_per_rank = 0.2;

void* map(int descriptor, int flags) {
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | flags, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void wait_for(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  while (word.load(std::memory_order_acquire) != value) pause_core();
}

/// Nanoseconds per round trip: the minimum of several batches, as a batch may have been interrupted.
double first_side(Shared& shared) {
  constexpr std::uint32_t batches = 100;
  constexpr std::uint32_t least_batches = 10;
  constexpr std::uint32_t trips = 50;
  constexpr double long_enough = 20'000;  // microseconds, in case the machine gives this process no core for long
  const double start = microseconds_now();
  double least = 0;
  std::uint32_t count = 0;
  for (std::uint32_t batch = 0; batch < batches; ++batch) {
    const double begin = microseconds_now();
    if (batch >= least_batches && begin - start > long_enough) break;
    for (std::uint32_t i = 0; i < trips; ++i) {
      shared.ping.store(++count, std::memory_order_release);
      wait_for(shared.pong, count);
    }
    const double nanoseconds = (microseconds_now() - begin) * 1000 / trips;
    least = batch == 0 ? nanoseconds : std::min(least, nanoseconds);
  }
  shared.ping.store(~std::uint32_t{0}, std::memory_order_release);
  return least;
}

void second_side(Shared& shared) {
  for (std::uint32_t seen = 0;;) {
    const std::uint32_t now = shared.ping.load(std::memory_order_acquire);
    if (now == ~std::uint32_t{0}) return;
    if (now != seen) shared.pong.store(seen = now, std::memory_order_release);
    pause_core();
  }
}

}  // namespace

Shared* map_shared(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return nullptr;
  void* const memory = ::ftruncate(descriptor, sizeof(Shared)) == 0 ? map(descriptor, 0) : nullptr;
  ::close(descriptor);
  return static_cast<Shared*>(memory);
}

Shared* map_shared_with_children() { return static_cast<Shared*>(map(-1, MAP_ANONYMOUS)); }

double microseconds_now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

std::vector<int> first_two_cores() {
  cpu_set_t allowed;
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cores;
  for (unsigned core = 0; core < CPU_SETSIZE && cores.size() < 2; ++core)
    if (CPU_ISSET(core, &allowed)) cores.push_back(static_cast<int>(core));
  return cores;
}

bool stay_on(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(core), &one);
  return ::sched_setaffinity(0, sizeof one, &one) == 0;
}

RankSync::RankSync(Shared* shared, int rank, int ranks, int threads, int cores, std::function<void()> progress)
    : shared_(shared), rank_(rank), ranks_(ranks), awake_(ranks * threads <= cores), progress_(std::move(progress)) {
  // Touched now, so that no page is mapped between two timed calls.
  std::memset(begin_of(rank), 0, sizeof shared->begin[rank]);
  std::memset(end_of(rank), 0, sizeof shared->end[rank]);
}

void RankSync::gather() {
  const std::uint32_t old = shared_->round.load(std::memory_order_acquire);
  if (shared_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(ranks_)) {
    shared_->arrived.store(0, std::memory_order_relaxed);
    shared_->round.store(old + 1, std::memory_order_seq_cst);
    if (shared_->sleepers.load(std::memory_order_seq_cst) > 0)
      ::syscall(SYS_futex, &shared_->round, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
    return;
  }
  if (awake_) return wait_awake(shared_->round, old);
  shared_->sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (shared_->round.load(std::memory_order_seq_cst) == old) {
    const timespec millisecond{0, 1'000'000};
    ::syscall(SYS_futex, &shared_->round, FUTEX_WAIT, old, &millisecond, nullptr, 0);
    if (progress_ && shared_->round.load(std::memory_order_acquire) == old) progress_();
  }
  shared_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void RankSync::meet() {
  const std::uint32_t old = shared_->align_round.load(std::memory_order_acquire);
  if (shared_->aligned.fetch_add(1, std::memory_order_acq_rel) + 1 < static_cast<std::uint32_t>(ranks_))
    return wait_awake(shared_->align_round, old);
  shared_->aligned.store(0, std::memory_order_relaxed);
  shared_->start = microseconds_now() + until_start + until_start_per_rank * ranks_;
  shared_->align_round.store(old + 1, std::memory_order_release);
}

void RankSync::align() {
  meet();
  // The cache line that shows it reaches the other cores one after the other, and 0.15 us later.
  while (awake_ && microseconds_now() < shared_->start) continue;
}

void RankSync::wait_awake(const std::atomic<std::uint32_t>& round, std::uint32_t old) {
  double last = 0;
  for (unsigned i = 1; round.load(std::memory_order_acquire) == old; ++i) {
    if (i % 16 != 0) {
      pause_core();
      continue;
    }
    ::sched_yield();
    if (!progress_ || i % 1024 != 0) continue;
    const double now = microseconds_now();
    if (last != 0 && now - last > 1000) progress_();
    if (last == 0 || now - last > 1000) last = now;
  }
}

bool RankSync::decide(bool of_first) {
  std::atomic<std::uint32_t>& slot = shared_->decision[decisions_++ % 2];
  if (rank_ == 0) slot.store(of_first ? 1 : 0, std::memory_order_relaxed);
  gather();
  return slot.load(std::memory_order_relaxed) != 0;
}

double RankSync::largest(double mine) {
  shared_->value[rank_] = mine;
  gather();
  const double most = *std::max_element(shared_->value, shared_->value + ranks_);
  gather();
  return most;
}

std::uint64_t RankSync::sum(std::uint64_t mine) {
  shared_->sum.fetch_add(mine);
  gather();
  const std::uint64_t all = shared_->sum.load();
  gather();
  if (rank_ == 0) shared_->sum.store(0);
  gather();
  return all;
}

double RankSync::probe(std::span<const int> cores) {
  if (ranks_ < 2 || cores.size() < 2) return 0;
  cpu_set_t before;
  ::sched_getaffinity(0, sizeof before, &before);
  const bool takes_part = rank_ < 2;
  bool placed = true;
  if (rank_ == 0) {
    shared_->ping.store(0);
    shared_->pong.store(0);
  }
  if (takes_part) placed = stay_on(cores[static_cast<std::size_t>(rank_)]);
  double mine = 0;
  if (largest(placed ? 0 : 1) == 0) {  // two ranks on one core would take turns at the scheduler's rate
    if (rank_ == 0) mine = first_side(*shared_);
    if (rank_ == 1) second_side(*shared_);
  }
  if (takes_part) ::sched_setaffinity(0, sizeof before, &before);
  return largest(mine);
}

}  // namespace tutti::cli::measure
