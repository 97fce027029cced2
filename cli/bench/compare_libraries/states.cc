#include "cli/bench/compare_libraries/states.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/bench/compare_libraries/rows.h"

namespace tutti::cli::versus {
namespace {

constexpr std::string_view state_names[] = {"near", "far", "alone", "mixed"};

// On known machines states differ by a factor of 5 to 7, the round trips within one state by at most 3. The limit
// applies to means.
constexpr double least_factor = 3.5;
constexpr double clearly = 1.2;  // factor from the boundary

constexpr std::size_t bins_per_octave = 8;
constexpr std::size_t bins = 20 * bins_per_octave;  // up to a millisecond

bool is_probed(const Row& row) { return row.probe_before > 0 && row.probe_after > 0; }

double octaves_of(double probe) { return std::max(0.0, std::log2(probe)); }

/// A subset of the probes: their number, and the sum of their octaves.
struct Share {
  double count = 0;
  double octaves = 0;

  double mean() const { return octaves / count; }
  void add(const Share& other) {
    count += other.count;
    octaves += other.octaves;
  }
};

/// In nanoseconds; 0: there is only one state. After N. Otsu, "A threshold selection method from gray-level
/// histograms", 1979: the cut that puts most of the variance between the two sides.
double boundary_between_states(std::span<const Row> rows) {
  std::array<Share, bins> histogram;
  Share all;
  for (const Row& row : rows) {
    if (!is_probed(row)) continue;
    for (const double probe : {row.probe_before, row.probe_after}) {
      const double octaves = octaves_of(probe);
      const auto bin = static_cast<std::size_t>(octaves * bins_per_octave);
      histogram[std::min(bin, bins - 1)].add({1, octaves});
      all.add({1, octaves});
    }
  }
  double most = 0, boundary = 0;
  Share below;
  for (const Share& bin : histogram) {
    below.add(bin);
    const Share above{all.count - below.count, all.octaves - below.octaves};
    if (bin.count == 0 || above.count == 0) continue;
    const double apart = above.mean() - below.mean();
    const double between = below.count * above.count * apart * apart;
    if (between <= most) continue;
    most = between;
    boundary = apart < std::log2(least_factor) ? 0 : std::exp2((below.mean() + above.mean()) / 2);
  }
  return boundary;
}

State state_of(const Row& row, double boundary) {
  if (!is_probed(row)) return State::alone;
  if (std::max(row.probe_before, row.probe_after) * clearly < boundary || boundary == 0) return State::near;
  return std::min(row.probe_before, row.probe_after) > clearly * boundary ? State::far : State::mixed;
}

}  // namespace

std::string_view name_of(State state) { return state_names[static_cast<std::size_t>(state)]; }

void tell_states(std::span<Row> rows) {
  const double boundary = boundary_between_states(rows);
  for (Row& row : rows) row.state = state_of(row, boundary);
}

State usual_state(std::span<const Row> rows) {
  const auto count = [&](State state) {
    return std::count_if(rows.begin(), rows.end(), [&](const Row& row) { return row.state == state; });
  };
  return count(State::far) > count(State::near) ? State::far : State::near;
}

}  // namespace tutti::cli::versus
