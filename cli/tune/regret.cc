// The arithmetic of `tutti tune --check`.

#include "cli/tune/regret.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/measure/median.h"
#include "cli/tune/table.h"

namespace tutti::cli::tune {
namespace {

constexpr double most_for_less_bytes = 1.3;
constexpr double most_for_fewer_ranks = 2;

/// How much faster `name` was than the chosen algorithm in all races together; 0 unless it was faster in each of them
/// and in most rounds.
double gain(std::span<const Race> races, const std::string& name, const std::string& chosen) {
  double product = 1;
  Race::Count rounds;
  for (const Race& race : races) {
    const Entrant* const one = race.find(name);
    const double ratio = one != nullptr && one->in ? race.ratio(race.of(chosen), *one) : 0;
    if (ratio <= 1) return 0;
    product *= ratio;
    const Race::Count more = race.wins(*one, race.of(chosen));
    rounds.won += more.won;
    rounds.of += more.of;
  }
  return rounds.shows_winner() ? std::pow(product, 1.0 / static_cast<double>(races.size())) : 0;
}

bool same_line(const Regret& a, const Regret& b) { return a.collective == b.collective && a.transport == b.transport; }

std::string told(const Cliff& cliff) {
  const Regret& a = *cliff.dear;
  const Regret& b = *cliff.next;
  return fmt::format("# cliff: {} {}: {} by {} ranks takes {} us, {:.2f} times {} by {} ranks ({} us)\n", a.collective,
                     a.transport, exact_bytes(a.bytes), a.ranks, in_microseconds(a.chosen_us), cliff.ratio,
                     exact_bytes(b.bytes), b.ranks, in_microseconds(b.chosen_us));
}

}  // namespace

void judge(std::span<const Race> races, Regret& regret) {
  std::vector<double> medians;
  bool alone = true;
  for (const Race& race : races) {
    const Entrant& chosen = race.of(regret.chosen);
    medians.push_back(measure::median(chosen.times));
    regret.rounds += static_cast<int>(chosen.times.size());
    alone = alone && race.is_alone(chosen);
  }
  regret.sure = alone || regret.rounds >= Race::enough_rounds;
  regret.chosen_us = measure::median(medians);
  regret.best = regret.chosen;
  double most = 1;
  for (const Entrant& one : races.front().entrants())
    if (const double ratio = gain(races, one.name, regret.chosen); ratio > most) {
      most = ratio;
      regret.best = one.name;
    }
  regret.regret = most - 1;
  regret.best_us = regret.chosen_us / most;
}

std::vector<Cliff> cliffs(std::span<const Regret> all) {
  std::vector<Cliff> found;
  for (const Regret& one : all) {
    const Regret* larger = nullptr;
    const Regret* more = nullptr;
    for (const Regret& other : all) {
      if (!one.sure || !other.sure || !same_line(one, other)) continue;
      if (other.ranks == one.ranks && other.bytes > one.bytes && (!larger || other.bytes < larger->bytes))
        larger = &other;
      if (other.bytes == one.bytes && other.ranks > one.ranks && (!more || other.ranks < more->ranks)) more = &other;
    }
    for (const auto& [next, most] : {std::pair{larger, most_for_less_bytes}, {more, most_for_fewer_ranks}})
      if (next != nullptr && one.chosen_us > most * next->chosen_us)
        found.push_back({&one, next, one.chosen_us / next->chosen_us});
  }
  return found;
}

std::string regret_text(std::span<const Regret> all) {
  std::string text = fmt::format("# {:<16} {:<9} {:>5} {:>6}  {:<24} {:>10}  {:<24} {:>10} {:>7} {:>7}\n", "collective",
                                 "transport", "ranks", "bytes", "chosen", "us", "best", "us", "regret", "rounds");
  double sum = 0;
  int sure = 0;
  const Regret* worst = nullptr;
  for (const Regret& one : all) {
    text += fmt::format("  {:<16} {:<9} {:>5} {:>6}  {:<24} {:>10}  {:<24} {:>10} {:>7} {:>7}\n", one.collective,
                        one.transport, one.ranks, exact_bytes(one.bytes), one.chosen, in_microseconds(one.chosen_us),
                        one.best, in_microseconds(one.best_us),
                        one.sure ? fmt::format("{:.1f} %", one.regret * 100) : "?", one.rounds);
    if (!one.sure) continue;
    ++sure;
    sum += one.regret;
    if (worst == nullptr || one.regret > worst->regret) worst = &one;
  }
  if (worst != nullptr)
    text += fmt::format("# regret: mean {:.1f} %, worst {:.1f} % ({} {}, {} ranks, {}), over {} points\n",
                        sum / sure * 100, worst->regret * 100, worst->collective, worst->transport, worst->ranks,
                        exact_bytes(worst->bytes), sure);
  if (static_cast<std::size_t>(sure) < all.size())
    text += fmt::format("# {} points with \"?\" had too few rounds and do not count; --time gives them more\n",
                        all.size() - static_cast<std::size_t>(sure));
  const std::vector<Cliff> found = cliffs(all);
  for (const Cliff& cliff : found) text += told(cliff);
  if (found.empty()) text += "# no cliffs: more bytes or more ranks never cost much less\n";
  return text;
}

std::string regret_csv(std::span<const Regret> all) {
  std::string text = "collective,transport,ranks,bytes,chosen,chosen_us,best,best_us,regret,rounds,sure\n";
  for (const Regret& one : all)
    text += fmt::format("{},{},{},{},{},{:.3f},{},{:.3f},{:.4f},{},{}\n", one.collective, one.transport, one.ranks,
                        one.bytes, one.chosen, one.chosen_us, one.best, one.best_us, one.regret, one.rounds,
                        one.sure ? 1 : 0);
  return text;
}

}  // namespace tutti::cli::tune
