#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/bench/compare_libraries/figures.h"

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

/// The same as CSV, a line per side and point, for --format csv.
std::string comparison_csv_header();
std::string comparison_csv_rows(const Comparison& comparison, const std::vector<std::string>& sides);

/// The same as one JSON document.
std::string json_document(std::span<const Comparison> comparisons, const std::vector<std::string>& sides,
                          const std::vector<std::string>& notes, const std::vector<std::string>& arguments);

/// Charts, one for each call, transport and number of ranks: time over size, with logarithmic axes.
std::string svg_document(std::span<const Comparison> comparisons, const std::vector<std::string>& sides);

}  // namespace tutti::cli::versus
