#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/tune/options.h"
#include "cli/tune/tournament.h"
#include "cli/tune/workers.h"

namespace tutti::cli::tune {

/// One point that was measured.
struct Point {
  measure::Call call{};
  std::string transport;
  int ranks = 2;
  bool oversubscribed = false;
  std::size_t bytes = 0;
  std::string chosen;       ///< by the table that the ranks have
  std::vector<Race> races;  ///< one for each time that the ranks were started anew; those who were close ran in all
};

/// Measures all that the options ask for, transport by transport and number of ranks by number of ranks, and then once
/// more with new processes, since where their memory lies changes times, too. Takes about the options' time; what there
/// was none for is missing. The call that is timed is a single one among ranks that begin
/// together, or one of many in a row where ranks outnumber cores and messages are up to 1 KiB: there the first to call
/// waits for its turn, not for messages. `progress` hears a line for each point; empty: nobody does. Throws Error.
std::vector<Point> measure_all(const Options& options, const std::function<void(const std::string&)>& progress);

}  // namespace tutti::cli::tune
