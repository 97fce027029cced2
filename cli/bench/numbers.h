#pragma once

#include <cstddef>
#include <vector>

#include "cli/bench/names.h"
#include "cli/bench/options.h"

// The arithmetic of the benchmark; nothing here measures.

namespace tutti::cli::bench {

/// The elements that one row moves on one rank.
struct Shape {
  std::size_t count = 0;       ///< passed to the call and printed in the table
  std::size_t send_count = 0;  ///< of this rank's send buffer
  std::size_t recv_count = 0;
  std::vector<std::size_t> send_counts;  ///< all_to_all_v only: per peer
  std::vector<std::size_t> recv_counts;
  std::size_t largest = 0;  ///< elements in the size column: the larger buffer of any rank
};

/// The row that nccl-tests runs for `bytes`. With one part per rank the part is a multiple of 16 bytes, rounded down.
Shape shape_of(MeasuredCall what, std::size_t bytes, std::size_t element, int rank, int ranks);

/// Sizes of the table, in the order of its rows.
std::vector<std::size_t> sizes_of(const Options& options);

/// Bus bandwidth divided by algorithm bandwidth: bytes on the busiest link per byte of the size column.
double bus_factor(MeasuredCall what, int ranks);

struct Bandwidth {
  double algorithm = 0;  ///< GB/s (1e9)
  double bus = 0;
};
Bandwidth bandwidth(MeasuredCall what, std::size_t bytes, double microseconds, int ranks);

/// Statistics of the times of single iterations.
struct Statistics {
  double least = 0, most = 0, mean = 0, p50 = 0, p95 = 0, p99 = 0, deviation = 0;
  double variation() const { return mean > 0 ? deviation / mean * 100 : 0; }
};
/// Percentiles are the nearest rank. All zero for no times.
Statistics statistics(std::vector<double> times);

/// One number from those of all ranks, as -a says.
double over_ranks(const std::vector<double>& by_rank, Average how);

/// The group of a rank when ranks are split as NCCL_TESTS_SPLIT says: "MOD 2", "DIV 4", "AND 0x3", "OR 1".
int split_colour(const std::string& split, int rank);

/// The remaining number of warm-up calls of a row, after `done` calls that took `seconds` together: as many as -w says,
/// or the usual number.
int warm_up_calls_left(const Options& options, int done, double seconds);

/// The number of iterations to time, given the expected time of one.
int iterations_for(const Options& options, double expected_seconds);

/// How many of `wanted` single calls to make if `done` of them took `seconds`, together with the meetings before them.
/// They take at most --max-time; without it a second, or --min-time if that is longer, but are no fewer than -n.
int single_calls_for(const Options& options, int wanted, int done, double seconds);

}  // namespace tutti::cli::bench
