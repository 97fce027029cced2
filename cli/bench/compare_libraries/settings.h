#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/compare_libraries/rows.h"

// How each library is started: for best speed, and as it comes.

namespace tutti::cli::versus {

/// One way to start a side. The fastest of them counts, and is named.
struct Setting {
  std::string side;
  std::string name;
  std::vector<std::string> launcher;     ///< words before the program
  std::vector<std::string> environment;  ///< "NAME=value", beside the caller's
};

struct Line {
  std::string transport;
  measure::MeasuredCall call;
  int ranks = 2;
  std::vector<std::size_t> sizes;
  Point point(std::size_t size) const { return {transport, call, ranks, size}; }
};

/// The setting of a library that is told nothing but how many ranks there are, and over TCP to use that. It is measured
/// beside the best settings, since most programs run so.
inline constexpr std::string_view as_shipped = "as-shipped";

/// The setting of `side` that stands for a program which is told no more than that: `as_shipped`, and of tutti the one
/// that `tutti run` chooses by itself. In PyTorch that is the one of torchrun, which binds no rank.
std::string_view shipped_setting(std::string_view side, const Point& point, int cores);

struct Places {
  std::string tutti;     ///< the program tutti, which starts the ranks of libraries that have no launcher
  std::string peers;     ///< the folder of private installations, each with a bin, a lib and an include
  std::string on_hosts;  ///< the script that starts ranks on several hosts
};

/// Every way to start `side` for `line` on a machine with `cores` cores.
std::vector<Setting> settings_of(std::string_view side, const Line& line, int cores, const Places& places);

}  // namespace tutti::cli::versus
