#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/proofs.h"
#include "cli/bench/compare.h"
#include "cli/bench/control.h"
#include "cli/bench/options.h"
#include "cli/bench/report.h"
#include "lib/base/descriptor.h"

namespace tutti::cli::bench {

/// TUTTI_TESTS_MIN_BW, or nccl-tests' name for it: the run fails below 0.9 times that many GB/s. Throws
/// Error{invalid_argument}.
std::optional<double> wanted_bandwidth();

/// Throws Error{invalid_argument} if -r is not one of `ranks` ranks.
void check_root(const Options& options, int ranks);

/// The run on one rank: all rows, in order. Rank 0 prints.
class Session {
 public:
  /// `arguments` is the command line of the program. `world` has all ranks; a group of it may be measured
  /// (NCCL_TESTS_SPLIT).
  Session(const Options& options, Communicator world, std::vector<std::string> arguments);

  /// The exit code, the same on all ranks. Throws Error.
  int run();

 private:
  bool first() const { return control_.rank() == 0; }
  Communicator& comm() { return group_ ? *group_ : world_; }
  void limit_to_memory();
  void open_output_file();
  void announce();
  void run_tables();
  int ranks_of_smallest_group();
  void run_rows(const NamedType& type, const NamedOp& op, int root);
  Row make_row(std::size_t bytes, const NamedType& type, const NamedOp& op, int root);
  void run_row(const Row& row);
  void prove(const Row& row, const std::string& algorithm);
  void compare_row(const Row& row);
  void conclude();
  void write_file(const std::vector<std::string>& errors);
  void report(const RowResult& row);
  static RowResult describe(const Case& work, const std::string& algorithm);
  void say(const std::string& text, bool result);
  void show_progress(const std::string& text);

  Options options_;
  std::vector<std::string> arguments_;
  Communicator world_;
  std::optional<Communicator> group_;
  Control control_;
  int colour_ = 0;
  Machine machine_;
  std::optional<Buffers> buffers_;
  algorithms::Proofs proofs_;  ///< proofs of the measured plans; rank 0's
  std::optional<JsonReport> json_;
  Descriptor json_file_;
  Outcome outcome_;
  std::vector<Comparison> comparisons_;
};

}  // namespace tutti::cli::bench
