#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/catalogue.h"

namespace tutti::testing {

inline constexpr int most_ranks = 8;

/// One fault at one place, or two deaths at the same time, or a death just after another rank has left on purpose: what
/// the survivors make of it is one case of the matrix.
struct FaultCase {
  const algorithms::Entry* entry;
  std::string algorithm;
  std::string_view transport;  ///< "shm", "tcp", "mixed"
  std::string_view fault;      ///< "kill", "stop", "exit", "throw", "drop"
  int ranks;
  int victim;
  int step;
  int second = -1;  ///< dies, too, at its first step or when it hears of that; then the survivors shrink
  int leaver = -1;  ///< ends before the call, which the others make in a sub-group; then they shrink it

  bool shrinks() const { return second >= 0 || leaver >= 0; }
  bool is_victim(int rank) const { return rank == victim || rank == second; }
  /// The ranks that make the call that fails, in the order of their ranks in its communicator.
  std::vector<int> members() const;
  std::string describe() const;
  /// As in TUTTI_INJECT.
  std::string injection() const;
};

/// Every collective and algorithm x transport x fault x victim (root, middle, leaf) x step: each one for `kill`, the
/// first and the last for the others; with seven ranks a sample. Then every algorithm x transport once with two victims
/// and once with one who leaves.
std::vector<FaultCase> all_cases();

/// What a rank leaves for the driver, in memory that both share.
struct RankReport {
  std::atomic<std::int64_t> entered{0};  ///< its last call, nanoseconds of the monotonic clock
  std::atomic<std::int64_t> failed{0};   ///< when that threw
  std::atomic<std::int64_t> shrunk{0};   ///< when shrink() and a barrier of the survivors were done
  std::atomic<int> finished{0};          ///< survived, and cleaned up
  int code = -1;
  int culprit = -1;  ///< in the world
  int survivors = 0;
  int descriptors_before = 0;
  int descriptors_after = 0;
  std::array<char, 2048> text{};
};
struct CaseReport {
  std::array<RankReport, most_ranks> ranks;
};

/// The deadline of the call that fails: short where nothing but it tells that a rank is stopped.
std::chrono::milliseconds call_timeout(std::string_view fault);

/// The life of one rank: two calls of the collective, then barriers, until one throws. Does not return.
[[noreturn]] void run_rank(const FaultCase& fault, int rank, std::uint16_t store_port, int number, CaseReport& reports);

}  // namespace tutti::testing
