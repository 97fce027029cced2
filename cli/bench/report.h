#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench/machine.h"
#include "cli/bench/measure.h"
#include "cli/bench/options.h"

// The printed output. All functions return text, complete lines unless said otherwise; bench.cc decides where it goes.

namespace tutti::cli::bench {

/// One measured row and its placements. Without `in_place` there is no such form.
struct RowResult {
  std::size_t bytes = 0;
  std::size_t count = 0;
  std::string type;
  std::string op;         ///< "none" if nothing is reduced
  int root = -1;          ///< -1 if there is none
  std::string algorithm;  ///< the requested or the chosen one
  Timing out_of_place;
  std::optional<Timing> in_place;
  std::string ready;       ///< local time, with -S
  std::string experiment;  ///< distinguishes rows of one size: the algorithm, if several are compared
};

/// The whole run, as shown in the footer and the JSON file.
struct Outcome {
  std::size_t wrong_placements = 0;
  double bus_bandwidth_sum = 0;
  std::size_t placements = 0;
  std::optional<double> least_bandwidth;  ///< the required one

  void add(const RowResult& row);
  double average() const { return placements > 0 ? bus_bandwidth_sum / static_cast<double>(placements) : 0; }
  bool too_slow() const { return least_bandwidth && average() < 0.9 * *least_bandwidth; }
};

/// `value` in `width` characters: two decimals, else one, else none, else in powers of ten.
std::string fitted(double value, int width);
/// "2024-02-29 13:05:00".
std::string local_time();

/// Everything above the column names.
std::string preamble(const Options& options, const Machine& machine);
/// Column names and units of --format table and wide.
std::string table_header(const Options& options);
std::string table_row(const RowResult& row, const Options& options);
std::string table_footer(const Outcome& outcome, const Options& options);

std::string csv_header();
std::string csv_rows(const RowResult& row, const Options& options);

/// The JSON document, format 3 of nccl-tests with our additions under "tutti".
class JsonReport {
 public:
  JsonReport(const Options& options, const Machine& machine, std::vector<std::string> arguments,
             std::vector<std::string> environment);
  ~JsonReport();
  void add(const RowResult& row);
  /// Adds the result of a comparison in words.
  void conclude(const std::vector<std::string>& sentences);
  /// Ends the document and returns it.
  std::string finish(const Outcome& outcome, const std::vector<std::string>& errors);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::cli::bench
