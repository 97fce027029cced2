// Measures what calibrate_fit.cc makes a network of, and then how well that network foretells other calls.

#include "tools/simulate/calibrate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tools/simulate/runs.h"
#include "tools/tune_crew.h"

namespace tutti::tools::simulate {
namespace {

using peers::Call;

constexpr std::size_t sizes[] = {8,       1 << 10, 16 << 10, 128 << 10,
                                 1 << 20, 2 << 20, 4 << 20,  8 << 20};  // of one message
constexpr std::size_t summed = 1 << 20;

class Gauge {
 public:
  explicit Gauge(const std::string& transport) : crew_({transport, 2, 2 * sizes[std::size(sizes) - 1], "", true}) {}

  /// The median of single calls, or of one of many in a row; the least of three such.
  double time(Call call, const std::string& algorithm, std::size_t bytes, bool in_a_row = false) {
    double least = HUGE_VAL;
    for (int i = 0; i < 3; ++i) {
      tune::Order order;
      order.call = call;
      order.bytes = bytes;
      order.loop = in_a_row;
      const int calls = in_a_row ? 200 : bytes <= 1 << 20 ? 21 : 5;
      order.add(algorithm, bytes <= 1 << 20 ? 5 : 1, calls);
      least = std::min(least, crew_.measure(order).at(0));
    }
    return least;
  }

 private:
  tune::Crew crew_;
};

Figures measure(Gauge& gauge) {
  Figures figures;
  for (const std::size_t bytes : sizes)
    figures.one_message.push_back({bytes, gauge.time(Call::all_gather, "ring", 2 * bytes)});
  figures.two_hops = gauge.time(Call::all_reduce, "ring", 2 * sizes[0]);
  figures.many = gauge.time(Call::broadcast, "direct", 8, true);
  figures.summed_bytes = summed;
  figures.sum = gauge.time(Call::reduce_scatter, "ring", 2 * summed);
  return figures;
}

/// A comment per call that had no part in the fit.
std::string trial(Gauge& gauge, const Network& network) {
  std::string text;
  std::vector<double> errors;
  for (const char* name : {"ring", "tree:2", "double_binary_tree"})
    for (const std::size_t bytes :
         {std::size_t{1} << 10, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{8} << 20}) {
      const double measured = gauge.time(Call::all_reduce, name, bytes);
      const Task task{Collective::all_reduce, algorithms::find(Collective::all_reduce, name), 2, 0, bytes};
      const double simulated = simulate(task, network).result.seconds * 1e6;
      errors.push_back(std::abs(simulated / measured - 1));
      text += fmt::format("# all_reduce {:<19} {:>4}: measured {:>9.1f} us, simulated {:>9.1f} us ({:+.0f} %)\n", name,
                          size_text(bytes), measured, simulated, (simulated / measured - 1) * 100);
    }
  std::sort(errors.begin(), errors.end());
  return text + fmt::format("# Median error of these, none of which the fit has seen: {:.0f} %.\n",
                            errors[errors.size() / 2] * 100);
}

}  // namespace

std::string calibrate(const std::string& transport) {
  Gauge gauge{transport};
  const std::string text = "# Measured by tutti simulate --calibrate: two ranks, alone on their cores.\n" +
                           network_text("this machine, " + transport, measure(gauge));
  return text + trial(gauge, NetworkFile::parse(text, "calibration").for_algorithm(""));
}

}  // namespace tutti::tools::simulate
