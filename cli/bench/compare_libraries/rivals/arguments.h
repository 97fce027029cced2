#pragma once

#include <string>
#include <vector>

#include "cli/measure/measure.h"
#include "cli/measure/workload.h"

// The command line that all programs of the comparison share, and the lines they print. `tutti bench --against` starts
// them and reads these lines.

namespace tutti::cli::measure {

struct Arguments {
  MeasuredCall call;
  std::vector<std::size_t> sizes;
  std::string setting;
  std::string folder;
  std::string transport = "shm";
  int ranks = 2;        ///< for tutti-rival-limit only
  double gpu_rate = 0;  ///< the same: GB/s of copies in the GPU's memory; 0: it is measured
  int cores = 1;        ///< of all ranks together
  /// Two of them, the same for all libraries and settings. Rows are told apart by how far these are from each other;
  /// that of a rank's own cores would depend on how the library binds it.
  std::vector<int> probe_cores;
  Budget budget;
  int seconds = 60;  ///< after that the kernel ends the process
};

/// Throws std::invalid_argument.
Arguments parse_arguments(int argc, char** argv);

/// The line of one point: "row SIZE BYTES SINGLE LEAST P95 LOOP SKEW ITERATIONS WRONG PROBE PROBE", times in
/// microseconds, probes (before and after) in nanoseconds.
void print_row(std::size_t size, std::size_t bytes, const Times& times, std::uint64_t wrong, double before,
               double after);
/// The last line: everything has been printed. A program that hangs after it does no harm.
void print_end();

}  // namespace tutti::cli::measure
