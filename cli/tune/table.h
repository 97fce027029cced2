#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/tune/fit.h"
#include "tutti/types.h"

// The table that is written at the end, and the report about it.

namespace tutti::cli::tune {

/// All sizes of one collective over one transport with one number of ranks.
struct Curve {
  Collective collective{};
  std::string transport;
  int ranks = 2;
  bool oversubscribed = false;
  std::vector<Measured> points;
};

/// Lines for algorithms::TuningTable, after `comments` (lines without the mark), for sizes and numbers of ranks from
/// the smallest that was measured to the largest. In between a number of ranks stands for those half-way to its
/// neighbours, on hosts with the same relation of ranks to cores.
std::string table_text(std::span<const Curve> curves, const std::vector<std::string>& comments);

/// The points that change against the built-in table, the gain expected at each, and the total.
std::string changes_text(std::span<const Curve> curves);

/// Throws Error{invalid_argument} if the file exists and `force` is not set.
void refuse_existing(const std::string& path, bool force);
/// Writes all of it or nothing: it is written under another name and then renamed. Throws as above, and Error{system}.
void write_table(const std::string& path, const std::string& text, bool force);

/// "4", "24K", "16M": exact, as tables have it.
std::string exact_bytes(std::size_t bytes);

/// With two digits after the point below 10, else with one.
std::string in_microseconds(double value);

}  // namespace tutti::cli::tune
