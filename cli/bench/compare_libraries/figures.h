#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/compare_libraries/rows.h"
#include "cli/bench/compare_libraries/sides.h"

// The arithmetic of the comparison, apart from any measuring.

namespace tutti::cli::versus {

/// What one side needs at one point, with the best of its settings. Microseconds.
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
  std::map<std::string, std::string> troubles;  ///< of sides that have no figure

  std::optional<Figure> of(const std::string& side) const;
  /// The rival that needs least: its name; empty: there is none.
  std::string best_peer() const;
  /// Its time over tutti's: above 1 tutti is the faster one. Nothing where one of them has no figure.
  std::optional<double> ratio() const;
  /// Tutti's time over what the machine allows.
  std::optional<double> to_limit() const;
};

/// tutti in memory that the library allocated is a case of its own, and not the best of tutti's settings.
inline constexpr std::string_view allocated = "allocated";

/// The rows of one state; tutti's either with the setting `allocated` only, or with all others.
Comparison compare_in(State state, std::span<const Row> rows, const Point& point, bool in_allocated = false);
/// In the state in which most sides have figures; the usual one, if that does not decide.
Comparison compare(std::span<const Row> rows, const Point& point);

/// Whether another row is worth its time: fewer than `repetitions` of one state (of the usual one, if `usual_only`),
/// not twice as many in all, nothing failed, and not one of those that are behind another rival's setting for good.
bool needs_more(const Ledger& ledger, const Point& point, const Setting& setting, int repetitions, bool usual_only);

double geometric_mean(const std::vector<double>& values);

/// Points of the rows, in order.
std::vector<Point> points_of(std::span<const Row> rows);

}  // namespace tutti::cli::versus
