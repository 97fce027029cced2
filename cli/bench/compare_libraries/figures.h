#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/compare_libraries/rows.h"
#include "cli/bench/compare_libraries/settings.h"

// The arithmetic of the comparison; nothing here measures.

namespace tutti::cli::versus {

/// The time of one side at one point, with the best of its settings, in microseconds.
struct Figure {
  double median = 0;
  double least = 0;
  double most = 0;
  int rows = 0;
  std::string setting;
};

/// All sides at one point, in one state of the machine.
struct Comparison {
  Point point;
  State state = State::mixed;
  bool by_loop = false;
  std::map<std::string, Figure> sides;
  std::map<std::string, std::string> troubles;  ///< of sides that have no figure, and of tutti in any setting

  std::optional<Figure> of(const std::string& side) const;
  /// Name of the fastest rival; empty if there is none.
  std::string best_peer() const;
  /// The side of tutti's that a rival is compared with: for torch.distributed over Gloo that of torch.distributed over
  /// tutti, if that was measured.
  std::string own_beside(const std::string& side) const;
  /// The time of `side` over tutti's: above 1 tutti is faster. Nothing if one of them has no figure.
  std::optional<double> ratio_of(const std::string& side) const;
  /// That of the best peer.
  std::optional<double> ratio() const { return ratio_of(best_peer()); }
  /// Tutti's time over the limit of the machine.
  std::optional<double> to_limit() const;
};

/// tutti in memory that the library allocated is a case of its own, and does not count as a setting of tutti.
inline constexpr std::string_view allocated = "allocated";

/// torch.distributed over tutti, which is no other library and does not count as a setting of tutti.
inline constexpr std::string_view own_in_torch = "torch-tutti";

/// A side that is another library.
bool is_peer(std::string_view side);

/// The rows of one state; tutti's either with the setting `allocated` only, or with all others.
Comparison compare_in(State state, std::span<const Row> rows, const Point& point, bool in_allocated = false);
/// In the usual state; if that has no ratio, in one that has, or else in that in which most libraries have figures.
Comparison compare(std::span<const Row> rows, const Point& point);

/// Whether another row is worth its time: fewer than `repetitions` of one state (of the usual one, if `usual_only`),
/// not twice as many in all, nothing failed, and the setting is not hopelessly behind another rival's.
bool needs_more(const Ledger& ledger, const Point& point, const Setting& setting, int repetitions, bool usual_only);

double geometric_mean(const std::vector<double>& values);

/// Points of the rows, in order.
std::vector<Point> points_of(std::span<const Row> rows);

}  // namespace tutti::cli::versus
