#include "tools/simulate/regret.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tools/simulate/runs.h"
#include "tutti/error.h"

namespace tutti::tools::simulate {
namespace {

constexpr const char* slices[] = {"/64K", "/512K"};

std::vector<std::string> candidates(const algorithms::Entry& entry, const Network& network) {
  std::string name{entry.name};
  // Trees of chains are for hosts as wide as theirs.
  if (entry.has_radix) name += fmt::format(":{}", entry.name == "tree_of_chains" ? std::max(2, network.host) : 2);
  std::vector<std::string> names{name};
  if (entry.has_radix && entry.name != "tree_of_chains") names.push_back(std::string{entry.name} + ":4");
  if (entry.has_pipeline)
    for (const char* slice : slices) names.push_back(name + slice);
  return names;
}

}  // namespace

std::vector<Regret> regret(const algorithms::TuningTable& table, Collective collective, const std::vector<int>& ranks,
                           const std::vector<std::size_t>& sizes, const NetworkFile& file) {
  std::vector<Regret> found;
  const auto time = [&](const algorithms::Choice& choice, int n, std::size_t bytes) {
    return simulate({collective, choice, n, 0, bytes}, file.for_algorithm(choice.entry->name)).result.seconds;
  };
  for (const int n : ranks)
    for (const std::size_t bytes : sizes) {
      const algorithms::Choice chosen =
          settled(table.select({.collective = collective, .ranks = n, .bytes = bytes, .transport = "tcp"}), n, bytes);
      Regret one{n, bytes, chosen, chosen, time(chosen, n, bytes), 0};
      one.best_time = one.chosen_time;
      for (const algorithms::Entry& entry : algorithms::catalogue(collective))
        for (const std::string& name : candidates(entry, file.for_algorithm(entry.name))) {
          const algorithms::Choice choice = settled(algorithms::find(collective, name), n, bytes);
          try {
            if (const double seconds = time(choice, n, bytes); seconds < one.best_time)
              one.best = choice, one.best_time = seconds;
          } catch (const Error& error) {
            if (error.code() != ErrorCode::unsupported) throw;
          }
        }
      found.push_back(one);
    }
  return found;
}

std::string to_text(const std::vector<Regret>& all) {
  std::string text = fmt::format("{:>6} {:>6}  {:<24}{:>12}  {:<26}{:>12}{:>8}\n", "ranks", "bytes",
                                 "the table's choice", "time", "best by simulation", "time", "loss");
  double logarithms = 0, worst = 1;
  for (const Regret& one : all) {
    const double loss = one.chosen_time / one.best_time;
    logarithms += std::log(loss);
    worst = std::max(worst, loss);
    text += fmt::format("{:>6} {:>6}  {:<24}{:>12}  {:<26}{:>12}{:>7.2f}x\n", one.ranks, size_text(one.bytes),
                        to_string(one.chosen), time_text(one.chosen_time), loss > 1 ? to_string(one.best) : "the same",
                        time_text(one.best_time), loss);
  }
  const double mean = all.empty() ? 1 : std::exp(logarithms / static_cast<double>(all.size()));
  return text +
         fmt::format("\nThe table's choices take {:.2f} times as long as the best on average, {:.2f} at worst.\n", mean,
                     worst);
}

}  // namespace tutti::tools::simulate
