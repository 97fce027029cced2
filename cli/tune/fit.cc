// The cheapest way through the sizes, by dynamic programming. An algorithm costs the logarithm of its time over that of
// the fastest, and a change costs as much as 3 %. Two algorithms switch where their curves cross between two sizes,
// with both axes logarithmic, rounded to a readable number.

#include "cli/tune/fit.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/measure/median.h"

namespace tutti::cli::tune {
namespace {

const double change = std::log(1.03);
const double novelty = std::log(1.03);  // once, and a little per size, so that ties go to the built-in choice
const double novelty_per_size = std::log(1.005);
constexpr int few_rounds = 5;
const double thin_evidence = std::log(1.05);
const double unknown = std::log(4.0);  // left early, or left out as hopeless

double cost(const Measured& point, const std::string& algorithm) {
  const double ratio = point.ratio_of(algorithm);
  const double extra = algorithm == point.builtin ? 0 : point.rounds < few_rounds ? thin_evidence : novelty_per_size;
  return (ratio > 0 ? std::log(ratio) : unknown) + extra;
}

std::vector<std::string> names_in(std::span<const Measured> points) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Measured& point : points) add(point.builtin);
  for (const Measured& point : points)
    for (const Sample& sample : point.samples) add(sample.algorithm);
  return names;
}

/// The cost of using `now` at a point after `before` at the one below; 0 if the built-in table does the same.
double change_cost(const Measured& below, const Measured& point, const std::string& before, const std::string& now) {
  if (before == now) return 0;
  return below.builtin == before && point.builtin == now ? 0 : change;
}

/// The best algorithms of all points together.
std::vector<std::string> cheapest_way(std::span<const Measured> points, const std::vector<std::string>& names) {
  std::vector<std::vector<double>> total(points.size(), std::vector<double>(names.size()));
  std::vector<std::vector<std::size_t>> from(points.size(), std::vector<std::size_t>(names.size()));
  for (std::size_t i = 0; i < points.size(); ++i)
    for (std::size_t now = 0; now < names.size(); ++now) {
      double best = names[now] == points[i].builtin ? 0 : novelty;
      for (std::size_t before = 0; i > 0 && before < names.size(); ++before) {
        const double way = total[i - 1][before] + change_cost(points[i - 1], points[i], names[before], names[now]);
        if (before > 0 && way >= best) continue;
        best = way;
        from[i][now] = before;
      }
      total[i][now] = best + cost(points[i], names[now]);
    }
  std::vector<std::string> way(points.size());
  auto last =
      static_cast<std::size_t>(std::min_element(total.back().begin(), total.back().end()) - total.back().begin());
  for (std::size_t i = points.size(); i-- > 0; last = from[i][last]) way[i] = names[last];
  return way;
}

/// The nearest power of two, or three times one, within the two sizes; the lower size if there is none.
std::size_t readable(double bytes, std::size_t low, std::size_t high) {
  std::size_t best = low;
  for (std::size_t power = 2; power < high; power *= 2)
    for (const std::size_t value : {power, power / 2 * 3}) {
      const auto distance = [&](std::size_t one) {
        return std::abs(std::log(static_cast<double>(std::max<std::size_t>(one, 1)) / bytes));
      };
      if (value >= low && value < high && distance(value) < distance(best)) best = value;
    }
  return best;
}

/// The last size at which `before` is better than `after`, between two sizes at which the one and the other is.
std::size_t crossing(const Measured& below, const Measured& above, const std::string& before,
                     const std::string& after) {
  const double low = std::log(static_cast<double>(std::max<std::size_t>(below.bytes, 1)));
  const double high = std::log(static_cast<double>(above.bytes));
  double share = 0.5;
  const double ratios[] = {below.ratio_of(before), below.ratio_of(after), above.ratio_of(before),
                           above.ratio_of(after)};
  if (std::all_of(std::begin(ratios), std::end(ratios), [](double ratio) { return ratio > 0; })) {
    const double ahead = std::log(ratios[1] / ratios[0]);
    const double behind = std::log(ratios[2] / ratios[3]);
    if (ahead > 0 && behind > 0) share = ahead / (ahead + behind);
  }
  return readable(std::exp(low + share * (high - low)), below.bytes, above.bytes);
}

}  // namespace

double Measured::ratio_of(const std::string& algorithm) const {
  for (const Sample& sample : samples)
    if (sample.algorithm == algorithm) return sample.ratio;
  return 0;
}

Measured together(std::span<const Race> races) {
  struct Sum {
    double logs = 0;
    int races = 0;
    double mean() const { return std::exp(logs / races); }
  };
  std::map<std::string, Sum> sums;
  Sum microseconds;
  Measured result;
  for (const Race& race : races) {
    if (race.rounds() < 2) continue;
    result.rounds += race.rounds();
    const Entrant& leader = race.entrants()[race.leader()];
    microseconds.logs += std::log(measure::median(leader.times));
    ++microseconds.races;
    for (const Entrant& one : race.entrants())
      if (const double ratio = race.ratio(one, leader); ratio > 0) {
        sums[one.name].logs += std::log(ratio);
        ++sums[one.name].races;
      }
  }
  double least = 0;
  for (const auto& [name, sum] : sums)
    if (sum.races == microseconds.races && (least == 0 || sum.mean() < least)) least = sum.mean();
  for (const auto& [name, sum] : sums)
    result.samples.push_back({name, std::max(1.0, sum.races == microseconds.races ? sum.mean() / least : sum.mean())});
  if (microseconds.races > 0) result.microseconds = microseconds.mean() * least;
  return result;
}

std::vector<Segment> fit(std::span<const Measured> points) {
  std::vector<Segment> segments;
  if (points.empty()) return segments;
  const std::vector<std::string> way = cheapest_way(points, names_in(points));
  for (std::size_t i = 0; i < way.size(); ++i) {
    if (i > 0 && way[i] == way[i - 1]) continue;
    if (i > 0) segments.back().to = crossing(points[i - 1], points[i], way[i - 1], way[i]);
    segments.push_back({way[i]});
  }
  return segments;
}

const Segment& segment_at(std::span<const Segment> segments, std::size_t bytes) {
  return *std::find_if(segments.begin(), segments.end(), [&](const Segment& one) { return bytes <= one.to; });
}

bool is_worth_a_try(std::span<const double> ratios) {
  constexpr double far = 2;
  if (ratios.size() < 2) return true;
  const double last = ratios.back();
  const double before = ratios[ratios.size() - 2];
  return last < far || before < far || last < 0.8 * before;
}

}  // namespace tutti::cli::tune
