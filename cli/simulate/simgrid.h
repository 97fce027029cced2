#pragma once

#include <string>
#include <vector>

#include "cli/simulate/runs.h"

namespace tutti::cli::simulate {

/// The time of a call by our simulator and by SimGrid (https://simgrid.org), on the same network.
struct Checked {
  Timed ours;
  double simgrid = 0;  ///< seconds

  /// The difference of SimGrid's time from ours, relative to ours.
  double distance() const;
};

/// Throws Error{unsupported} if the program tutti-simgrid is missing, saying what to install, or if a call is too large
/// for it.
void refuse_without_simgrid(const std::vector<Job>& jobs);

/// Replays each call with the program tutti-simgrid; `network` is an argument of NetworkFile::open(). If the program
/// fails, throws Error{unsupported} with its message.
std::vector<Checked> check_by_simgrid(const std::vector<Timed>& all, const std::string& network, const Told& tell = {});

std::string to_table(const std::vector<Checked>& all);
std::string to_csv(const std::vector<Checked>& all);

}  // namespace tutti::cli::simulate
