#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/tune/workers.h"

namespace tutti::cli::simulate {

/// Where ranks are measured: on this host over `transport`, or each in a network namespace (`ip netns`) of its own.
struct Place {
  std::string transport;
  std::vector<std::string> namespaces = {};
};

/// Measures calls of some ranks, in processes of their own that live as long as this. Forks: to be made before there
/// are other threads. Throws what Crew does.
class Gauge {
 public:
  Gauge(const Place& place, int ranks, std::size_t most_bytes);

  /// The median of single calls, microseconds; the least of three such. Between namespaces, where calls are slow and
  /// ranks may outnumber the cores, the median of calls between which all ranks sleep.
  double time(measure::Call call, const std::string& algorithm, std::size_t bytes);
  /// A call's share of many in a row.
  double time_in_a_row(measure::Call call, const std::string& algorithm, std::size_t bytes);

 private:
  double time_apart(measure::Call call, const std::string& algorithm, std::size_t bytes);

  bool apart_;
  tune::Crew crew_;
};

}  // namespace tutti::cli::simulate
