#pragma once

#include <span>
#include <string>

#include "algorithms/select.h"

namespace tutti::cli::tune {

/// Where calls are made.
struct Place {
  std::string transport;
  int ranks = 2;
  bool oversubscribed = false;
};

/// How many lines of the table decide calls of any size and collective at these places, and
/// which do not. Lines for ranks in several domains are left out of these: that depends on where ranks are.
std::string lines_text(const algorithms::TuningTable& table, const std::string& name, std::span<const Place> places);

}  // namespace tutti::cli::tune
