#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

// How the ranks of one measurement wait for each other, in memory that all of them map. The code is the same for every
// library that is measured, and uses none of them.

namespace tutti::cli::measure {

inline constexpr int most_ranks = 64;
inline constexpr int most_iterations = 2000;

/// In memory that the ranks share; all zero is its initial state.
struct Shared {
  alignas(64) std::atomic<std::uint32_t> arrived;
  alignas(64) std::atomic<std::uint32_t> round;
  alignas(64) std::atomic<std::uint32_t> sleepers;
  alignas(64) std::atomic<std::uint32_t> aligned;
  alignas(64) std::atomic<std::uint32_t> align_round;
  double start;                                        // of all ranks that align(), after that round
  alignas(64) std::atomic<std::uint32_t> decision[2];  // used alternately, so that a late rank never sees the next one
  alignas(64) std::atomic<std::uint64_t> sum;
  alignas(64) std::atomic<std::uint32_t> ping;
  alignas(64) std::atomic<std::uint32_t> pong;
  alignas(64) double value[most_ranks];
  double begin[most_ranks][most_iterations];
  double end[most_ranks][most_iterations];
};

/// Maps the file at `path`, creating it if necessary, for all ranks that give the same path. nullptr: errno has the
/// reason.
Shared* map_shared(const std::string& path);
/// Shared with the children of fork().
Shared* map_shared_with_children();

/// CLOCK_MONOTONIC, which is the same for all processes of a host.
double microseconds_now();

/// One rank's view. Threading: one thread. The functions that say "all ranks" return once all have called.
class RankSync {
 public:
  /// Each rank runs `threads` threads of the library. If there are more of them than `cores`, which all ranks have
  /// together, waiting ranks sleep. A waiting rank calls `progress` about once a millisecond; it is empty for libraries
  /// that need no calls to make progress.
  RankSync(Shared* shared, int rank, int ranks, int threads, int cores, std::function<void()> progress = {});

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// All ranks call. If they outnumber the cores they sleep, so that they do not disturb a library that still works.
  void gather();
  /// All ranks call, and none of them sleeps: each returns running, within a few context switches of the first.
  void meet();
  /// The same, but with a core each they return at a common time of the clock.
  void align();
  /// All ranks get the value of rank 0.
  bool decide(bool of_first);
  /// All ranks get the largest.
  double largest(double mine);
  /// All ranks get the sum.
  std::uint64_t sum(std::uint64_t mine);
  /// All ranks call, with the same two cores. Returns the round trip of a cache line between them, in ns. The first two
  /// ranks measure it there for a few milliseconds, wherever they are bound. 0 with one core or one rank, or if they
  /// may not run there.
  double probe(std::span<const int> cores);

  double* begin_of(int rank) { return shared_->begin[rank]; }
  double* end_of(int rank) { return shared_->end[rank]; }

 private:
  void wait_awake(const std::atomic<std::uint32_t>& round, std::uint32_t old);

  Shared* shared_;
  int rank_;
  int ranks_;
  bool awake_;
  unsigned decisions_ = 0;
  std::function<void()> progress_;
};

/// The first two cores that this process may use, or fewer.
std::vector<int> first_two_cores();
/// Keeps this process on one core. False: that core is not allowed.
bool stay_on(int core);

}  // namespace tutti::cli::measure
