// The rounds of a race, and which entrants leave after which round.

#include "cli/tune/tournament.h"

#include <algorithm>

#include "cli/measure/median.h"

namespace tutti::cli::tune {
namespace {

using measure::median;

constexpr double slow_call = 2000;  // microseconds: longer calls are repeated only if necessary

double median_of(const Entrant& one) { return median(one.times); }

/// Rounds with a ratio above 1.
std::size_t count_above(const std::vector<double>& ratios) {
  return static_cast<std::size_t>(std::count_if(ratios.begin(), ratios.end(), [](double value) { return value > 1; }));
}

}  // namespace

Race::Race(const std::vector<std::string>& names, std::string kept) : kept_(std::move(kept)) {
  if (!kept_.empty()) enter(kept_);
  for (const std::string& name : names) enter(name);
}

void Race::enter(const std::string& name) {
  const auto is_it = [&](const Entrant& one) { return one.name == name; };
  if (std::none_of(entrants_.begin(), entrants_.end(), is_it))
    entrants_.push_back({.name = name, .first_round = rounds_, .times = {}, .in = true});
}

std::vector<std::size_t> Race::order() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < entrants_.size(); ++i)
    if (entrants_[i].in) places.push_back(i);
  if (rounds_ % 2 == 1) std::reverse(places.begin(), places.end());
  return places;
}

void Race::add(std::size_t entrant, double microseconds) { entrants_[entrant].times.push_back(microseconds); }

const Entrant* Race::find(const std::string& name) const {
  for (const Entrant& one : entrants_)
    if (one.name == name) return &one;
  return nullptr;
}

/// The best median first; then by comparison with that one round by round, which is not affected by a change of the
/// machine's speed in the middle.
std::size_t Race::leader() const {
  const auto least = [&](const auto& value) {
    std::size_t best = entrants_.size();
    for (std::size_t i = 0; i < entrants_.size(); ++i) {
      if (!entrants_[i].in || entrants_[i].times.empty()) continue;
      if (best == entrants_.size() || value(entrants_[i]) < value(entrants_[best])) best = i;
    }
    return best;
  };
  const std::size_t first = least(median_of);
  if (first == entrants_.size()) return first;
  return least([&](const Entrant& one) { return ratio(one, entrants_[first]); });
}

std::vector<double> Race::ratios(const Entrant& a, const Entrant& b) const {
  const auto end = [](const Entrant& one) { return one.first_round + static_cast<int>(one.times.size()); };
  std::vector<double> all;
  for (int round = std::max(a.first_round, b.first_round); round < std::min(end(a), end(b)); ++round)
    all.push_back(a.times[static_cast<std::size_t>(round - a.first_round)] /
                  b.times[static_cast<std::size_t>(round - b.first_round)]);
  return all;
}

double Race::ratio(const Entrant& a, const Entrant& b) const { return median(ratios(a, b)); }

Race::Count Race::wins(const Entrant& a, const Entrant& b) const {
  const std::vector<double> all = ratios(b, a);
  return {static_cast<int>(count_above(all)), static_cast<int>(all.size())};
}

bool Race::is_alone(const Entrant& one) const {
  const bool had_rivals = entrants_.size() > 1;
  return (one.times.size() > 1 || !had_rivals) &&
         std::all_of(entrants_.begin(), entrants_.end(),
                     [&](const Entrant& other) { return !other.in || &other == &one; });
}

/// One slow round may be chance, so at first the best time counts, and only a much slower entrant is behind.
bool Race::is_behind(const Entrant& one, const Entrant& leader) const {
  const std::vector<double> all = ratios(one, leader);
  const double least = *std::min_element(one.times.begin(), one.times.end());
  const double middle = median(all);
  const bool mostly = count_above(all) * 4 >= all.size() * 3;
  switch (all.size()) {
    case 0:
      return false;
    case 1:
      return median_of(leader) > slow_call && middle > 1.8;
    case 2:
      return least > 2 * median_of(leader) || (median_of(leader) > slow_call && middle > 1.4);
    case 3:
      return middle > 1.4;
    case 4:
    case 5:
    case 6:
      return mostly && middle > 1.15;
    default:
      return mostly && middle > 1.04;
  }
}

void Race::end_round() {
  ++rounds_;
  const std::size_t best = leader();
  if (best == entrants_.size()) return;
  for (std::size_t i = 0; i < entrants_.size(); ++i) {
    Entrant& one = entrants_[i];
    if (one.in && i != best && one.name != kept_ && is_behind(one, entrants_[best])) one.in = false;
  }
}

void Race::abandon_round() {
  for (Entrant& one : entrants_) {
    const bool ran_in_it = one.first_round + static_cast<int>(one.times.size()) > rounds_;
    if (rounds_ > 0 && ran_in_it) one.times.pop_back();
    if (one.times.empty()) one.in = false;
  }
}

bool Race::over() const {
  if (rounds_ == 0 || rounds_ >= most_rounds) return rounds_ > 0;
  const auto left = std::count_if(entrants_.begin(), entrants_.end(), [](const Entrant& one) { return one.in; });
  const bool only_kept = left == 2 && !kept_.empty() && entrants_[leader()].name != kept_;
  return left <= 1 || (only_kept && rounds_ >= enough_rounds + 2);
}

}  // namespace tutti::cli::tune
