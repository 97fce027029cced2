#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "cli/tune/table.h"
#include "cli/tune/tournament.h"

// For tests of races with times that are made up.

namespace tutti::cli::tune {

using RaceClock = std::function<double(const std::string& name, int round)>;

/// Rounds until the race is over; returns how often anybody ran.
inline int run_race(Race& race, const RaceClock& time) {
  int calls = 0;
  while (!race.over()) {
    const int round = race.rounds();
    for (const std::size_t i : race.order()) {
      race.add(i, time(race.entrants()[i].name, round));
      ++calls;
    }
    race.end_round();
  }
  return calls;
}

/// "4: a 1.5, b 1" with the built-in choice `builtin`.
inline Measured point(std::size_t bytes, const std::map<std::string, double>& ratios, const std::string& builtin) {
  Measured result{bytes, {}, builtin, 10, 9};
  for (const auto& [name, ratio] : ratios) result.samples.push_back({name, ratio});
  return result;
}

}  // namespace tutti::cli::tune
