#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tutti/communicator.h"

namespace tutti::cli::bench {

/// Communication between ranks about the measurement. It never uses the measured collective: only send and recv, on a
/// communicator of its own.
class Control {
 public:
  Control(Communicator& world, std::chrono::milliseconds timeout);

  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  /// All ranks share a clock.
  bool one_host() const { return comm_.local_size() == comm_.size(); }

  /// Dissemination: log2(size) rounds, in round k to the rank 2^k ahead. No rank leaves before all have come.
  void barrier();
  /// All ranks' values; meaningful on rank 0, empty elsewhere.
  std::vector<double> gather(double mine) { return gather(std::span<const double>{&mine, 1}); }
  /// The same for `values` of one length: rank after rank.
  std::vector<double> gather(std::span<const double> values);
  std::vector<std::string> gather_text(const std::string& mine);
  /// Rank 0's value, on all ranks.
  double from_first(double value);

 private:
  Communicator comm_;
  MessageOptions options_;
};

}  // namespace tutti::cli::bench
