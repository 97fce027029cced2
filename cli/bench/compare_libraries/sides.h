#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench/compare_libraries/rows.h"
#include "cli/measure/workload.h"

// The libraries that are compared, and how each is started for best speed.

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

/// The programs of the comparison: their folder, and which of them exist.
class Sides {
 public:
  /// `folder` contains the programs; empty: where the build or the installation of this program put them. `names` are
  /// those of other libraries, or "all" for the available ones. Throws Error{invalid_argument} for an unknown name, and
  /// {unsupported}, naming the package, for a library that is not installed.
  Sides(std::string folder, const std::vector<std::string>& names);

  const std::vector<std::string>& rivals() const { return rivals_; }
  /// Every way to start every side for `line`: tutti's first, then the rivals', then the limit's. A rival without that
  /// transport has none.
  std::vector<Setting> settings(const Line& line, int cores) const;
  /// The side has the collective and the transport.
  static bool has(const std::string& side, const Line& line);
  /// The sizes that are measured with this side.
  std::vector<std::size_t> sizes(const std::string& side, const Line& line, int cores) const;
  /// Why a side is missing on some lines, for people; empty if it is not.
  std::string remark(const std::string& side, const Line& line, int cores) const;
  std::string program(const std::string& side) const;

 private:
  std::string folder_;
  std::vector<std::string> rivals_;
};

}  // namespace tutti::cli::versus
