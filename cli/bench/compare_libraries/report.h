#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/bench/compare_libraries/figures.h"
#include "cli/bench/compare_libraries/standings.h"

// The printed output. All functions return text.

namespace tutti::cli::versus {

/// "4 B", "64 KiB", "1 MiB".
std::string short_size(std::size_t bytes);
/// "all_reduce, 2 ranks, 64 KiB, shm".
std::string describe(const Point& point);

/// The names of the columns; `sides` are tutti, the rivals and the limit.
std::string table_header(const std::vector<std::string>& sides);
std::string table_row(const Comparison& comparison, const std::vector<std::string>& sides);
/// Explains the table.
std::string table_footer();

/// The same as CSV, a line per side and point, for --format csv. Cells of a side that has no figure are empty.
std::string comparison_csv_header();
std::string comparison_csv_rows(const Comparison& comparison, const std::vector<std::string>& sides);

/// What the documents contain.
struct Report {
  std::vector<std::string> sides;  ///< the columns
  std::vector<Comparison> comparisons;
  std::vector<Standing> standings;
  Versions versions;
  std::vector<std::string> notes;
};

/// The same as one JSON document.
std::string json_document(const Report& report, const std::vector<std::string>& arguments);

/// Charts, one for each call, transport and number of ranks: time over size, with logarithmic axes; and the standings
/// below them.
std::string svg_document(const Report& report);

}  // namespace tutti::cli::versus
