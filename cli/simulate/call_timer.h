#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/tune/workers.h"

namespace tutti::cli::simulate {

/// Where ranks are measured: on this host over `transport`, or each in its own network namespace (`ip netns`).
struct Placement {
  std::string transport;
  std::vector<std::string> namespaces = {};
};

/// Measures calls of some ranks, in processes that live as long as this object. It forks, so create it before there are
/// other threads. Throws what Workers throws.
class CallTimer {
 public:
  CallTimer(const Placement& place, int ranks, std::size_t most_bytes);

  /// The median of single calls in microseconds, and of three such the least. Between namespaces, where calls are slow
  /// and ranks may outnumber the cores, all ranks sleep between the calls.
  double time(measure::MeasuredCall call, const std::string& algorithm, std::size_t bytes);
  /// Time per call of many in a row.
  double time_in_a_row(measure::MeasuredCall call, const std::string& algorithm, std::size_t bytes);

 private:
  double time_apart(measure::MeasuredCall call, const std::string& algorithm, std::size_t bytes);

  bool apart_;
  tune::Workers workers_;
};

}  // namespace tutti::cli::simulate
