#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench_compare.h"
#include "tools/bench_control.h"
#include "tools/bench_options.h"
#include "tools/bench_report.h"

namespace tutti::tools::bench {

/// The run on one rank: all rows, in order. Rank 0 prints, the others only take part.
class Session {
 public:
  /// `arguments` are what the program was called with. `world` is every rank; a group of it may be measured
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
  void run_rows(const NamedType& type, const NamedOp& op, int root);
  Row make_row(std::size_t bytes, const NamedType& type, const NamedOp& op, int root);
  void run_row(const Row& row);
  void compare_row(const Row& row);
  void conclude();
  void report(const RowResult& row);
  RowResult describe(const Row& row, const std::string& algorithm);
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
  std::optional<JsonReport> json_;
  std::FILE* json_file_ = nullptr;
  Outcome outcome_;
  std::vector<Comparison> comparisons_;
};

}  // namespace tutti::tools::bench
