// Measures the inputs of calibrate_fit.cc, and then how well the resulting network predicts other calls.

#include "cli/simulate/calibrate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/base/output.h"
#include "cli/measure/median.h"
#include "cli/simulate/runs.h"

namespace tutti::cli::simulate {
namespace {

constexpr std::size_t sizes[] = {8,       1 << 10, 16 << 10, 128 << 10,
                                 1 << 20, 2 << 20, 4 << 20,  8 << 20};  // bytes of one message
constexpr std::size_t summed = 1 << 20;
constexpr const char* foretold[] = {"ring", "tree:2", "double_binary_tree"};

Figures measure(const Placement& place) {
  CallTimer timer{place, 2, 2 * sizes[std::size(sizes) - 1]};
  Figures figures;
  for (const std::size_t bytes : sizes)
    figures.one_message.push_back({bytes, timer.time(Collective::all_gather, "ring", 2 * bytes)});
  figures.two_hops = timer.time(Collective::all_reduce, "ring", 2 * sizes[0]);
  figures.many = timer.time_in_a_row(Collective::broadcast, "direct", 8);
  figures.summed_bytes = summed;
  figures.sum = timer.time(Collective::reduce_scatter, "ring", 2 * summed);
  return figures;
}

/// Prints a comment for each call while it is measured, and adds its error to `errors`.
void try_out(const Placement& place, const Network& network, int ranks, const std::vector<std::size_t>& all_bytes,
             std::vector<double>& errors) {
  CallTimer timer{place, ranks, *std::max_element(all_bytes.begin(), all_bytes.end())};
  for (const char* name : foretold)
    for (const std::size_t bytes : all_bytes) {
      const double measured = timer.time(Collective::all_reduce, name, bytes);
      const SimulatedCall simulated{Collective::all_reduce, algorithms::find(Collective::all_reduce, name), ranks, 0,
                                    bytes};
      const double predicted = simulate(simulated, network).result.seconds * 1e6;
      errors.push_back(std::abs(predicted / measured - 1));
      fmt::print("# all_reduce {:<19}{:>2} ranks {:>4}: measured {:>11.1f} us, simulated {:>11.1f} us ({:+.0f} %)\n",
                 name, ranks, size_text(bytes), measured, predicted, (predicted / measured - 1) * 100);
      flush_output();
    }
}

}  // namespace

void calibrate(const Placement& place, const Trials& trials) {
  const bool apart = !place.namespaces.empty();
  const std::string text =
      fmt::format("# Measured by tutti simulate --calibrate: two ranks, {}.\n{}",
                  apart ? "each in a network namespace of its own" : "alone on their cores",
                  network_text(apart ? "between namespaces, " + place.transport : "this machine, " + place.transport,
                               measure(place)));
  fmt::print("{}", text);
  const Network network = NetworkFile::parse(text, "calibration").for_algorithm("");
  std::vector<double> errors;
  for (const int ranks : trials.ranks) try_out(place, network, ranks, trials.bytes, errors);
  fmt::print("# Median error of these {}: {:.0f} %.\n", errors.size(), measure::median(errors) * 100);
}

}  // namespace tutti::cli::simulate
