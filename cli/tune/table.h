#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/tune/fit.h"
#include "tutti/types.h"

// What is written at the end, and what is said about it.

namespace tutti::cli::tune {

/// All sizes of one collective over one transport among so many ranks.
struct Curve {
  Collective collective{};
  std::string transport;
  int ranks = 2;
  bool oversubscribed = false;
  std::vector<Measured> points;
};

/// Lines that algorithms::TuningTable reads, after `comments` (lines without the mark). A number of ranks that was
/// measured stands for those around it, half-way to its neighbours, on hosts as crowded as this one was.
std::string table_text(std::span<const Curve> curves, const std::vector<std::string>& comments);

/// Which points change against the built-in table, by how much each should gain, and all together.
std::string changes_text(std::span<const Curve> curves);

/// Throws Error{invalid_argument} where there is such a file and `force` is not set.
void refuse_existing(const std::string& path, bool force);
/// All of it or nothing: it is written beside the path and then takes its name. Throws as above, and Error{system}.
void write_table(const std::string& path, const std::string& text, bool force);

/// "4", "24K", "16M": exact, as tables have it.
std::string exact_bytes(std::size_t bytes);

}  // namespace tutti::cli::tune
