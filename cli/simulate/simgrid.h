#pragma once

#include <string>
#include <vector>

#include "cli/simulate/runs.h"

namespace tutti::cli::simulate {

/// A call as we time it and as SimGrid does (https://simgrid.org), on the same network.
struct Checked {
  Timed ours;
  double simgrid = 0;  ///< seconds

  /// How much longer it takes by SimGrid, as a share of our time.
  double distance() const;
};

/// Throws Error{unsupported} if the program tutti-simgrid is not there, saying what to install, or a call is too large
/// for it.
void refuse_without_simgrid(const std::vector<Job>& jobs);

/// Has each call replayed by the program tutti-simgrid; `network` is what NetworkFile::open() takes. Throws
/// Error{unsupported} with what the program said if it fails.
std::vector<Checked> check_by_simgrid(const std::vector<Timed>& all, const std::string& network, const Told& tell = {});

std::string to_table(const std::vector<Checked>& all);
std::string to_csv(const std::vector<Checked>& all);

}  // namespace tutti::cli::simulate
