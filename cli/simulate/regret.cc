#include "cli/simulate/regret.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cli/simulate/bound.h"
#include "tutti/error.h"

namespace tutti::cli::simulate {
namespace {

constexpr const char* slices[] = {"/64K", "/512K"};

std::vector<std::string> candidates(const algorithms::Entry& entry, const Network& network) {
  std::string name{entry.name};
  // The radix of trees of chains, of rails and of groups is the number of ranks per host.
  const bool is_of_hosts = entry.name == "tree_of_chains" || entry.name == "rails";
  if (entry.has_radix) name += fmt::format(":{}", is_of_hosts ? std::max(2, network.host) : 2);
  std::vector<std::string> names{name};
  if (entry.has_radix && !is_of_hosts) names.push_back(std::string{entry.name} + ":4");
  if (entry.name == "hierarchical" && network.host > 4) names.push_back(fmt::format("hierarchical:{}", network.host));
  if (entry.has_pipeline)
    for (const char* slice : slices) names.push_back(name + slice);
  return names;
}

/// All algorithms that may be faster than `chosen`, each once, the most promising first.
struct Rival {
  algorithms::Choice choice;
  double least = 0;  ///< seconds
};
std::vector<Rival> rivals(const SimulatedCall& chosen, const NetworkFile& file) {
  std::set<std::string> names{to_string(chosen.choice)};
  std::vector<Rival> found;
  for (const algorithms::Entry& entry : algorithms::catalogue(chosen.collective)) {
    const Network network = file.for_algorithm(entry.name);
    for (const std::string& name : candidates(entry, network)) {
      SimulatedCall simulated = chosen;
      simulated.choice = settled(algorithms::find(chosen.collective, name), chosen.ranks, chosen.bytes);
      if (names.insert(to_string(simulated.choice)).second)
        found.push_back({simulated.choice, least_time(simulated, network)});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Rival& a, const Rival& b) { return a.least < b.least; });
  return found;
}

Regret regret(SimulatedCall simulated, const NetworkFile& file) {
  const auto time = [&] {
    return simulate(simulated, file.for_algorithm(simulated.choice.entry->name)).result.seconds;
  };
  Regret one{simulated.ranks, simulated.bytes, simulated.choice, simulated.choice, time(), 0};
  one.best_time = one.chosen_time;
  for (const Rival& rival : rivals(simulated, file)) {
    if (rival.least >= one.best_time) break;
    simulated.choice = rival.choice;
    try {
      if (const double seconds = time(); seconds < one.best_time) one.best = rival.choice, one.best_time = seconds;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
    }
  }
  return one;
}

/// As in algorithms::Situation.
int ranks_on_each_host(const NetworkFile& file, int ranks) {
  const int host = file.for_algorithm("ring").host;
  return host > 1 && host < ranks && ranks % host == 0 ? host : 0;
}

}  // namespace

std::vector<Regret> regret(const algorithms::TuningTable& table, Collective collective, const std::vector<int>& ranks,
                           const std::vector<std::size_t>& sizes, const NetworkFile& file, const Told& tell) {
  std::vector<SimulatedCall> tasks;
  for (const int n : ranks)
    for (const std::size_t size : sizes) {
      const std::size_t bytes = moved_bytes(collective, n, size);
      const int on_each = ranks_on_each_host(file, n);
      const algorithms::Choice chosen = table.select({.collective = collective,
                                                      .ranks = n,
                                                      .bytes = bytes,
                                                      .transport = on_each > 1 ? "hosts" : "tcp",
                                                      .ranks_on_each_host = on_each});
      tasks.push_back({collective, settled(chosen, n, bytes), n, 0, bytes});
    }
  std::vector<Regret> found(tasks.size());
  Tally tally{tasks.size(), tell};
  in_parallel(tasks.size(), [&](std::size_t begun) {
    const std::size_t at = tasks.size() - 1 - begun;  // the largest first
    tally.begin(tasks[at]);
    found[at] = regret(tasks[at], file);
  });
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

}  // namespace tutti::cli::simulate
