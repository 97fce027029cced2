#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench/compare_libraries/rows.h"
#include "cli/measure/workload.h"

// The libraries that are compared, and how each is started so that it is at its best.

namespace tutti::cli::versus {

/// One way to start a side. The best of them counts, and is named.
struct Setting {
  std::string side;
  std::string name;
  std::vector<std::string> launcher;     ///< words before the program
  std::vector<std::string> environment;  ///< "NAME=value", beside the caller's
};

struct Line {
  std::string transport;
  measure::Call call = measure::Call::barrier;
  int ranks = 2;
  std::vector<std::size_t> sizes;
  Point point(std::size_t size) const { return {transport, call, ranks, size}; }
};

/// Where the programs are, and what there is of them.
class Sides {
 public:
  /// `folder` with the programs; empty: where the build or the installation of this program put them. `names` of other
  /// libraries, or "all" for those that are there. Throws Error{invalid_argument} for a name that is none,
  /// {unsupported} for one that is not installed, naming the package.
  Sides(std::string folder, const std::vector<std::string>& names);

  const std::vector<std::string>& rivals() const { return rivals_; }
  /// Every way to start every side for `line`: tutti's first, then the rivals', then the limit's. A rival that has no
  /// such transport has none.
  std::vector<Setting> settings(const Line& line, int cores) const;
  /// The side has the collective and the transport.
  static bool has(const std::string& side, const Line& line);
  /// Those of the sizes that are measured with this side at all.
  std::vector<std::size_t> sizes(const std::string& side, const Line& line, int cores) const;
  /// Why a side is not there on some lines, for people; empty: it is.
  std::string remark(const std::string& side, const Line& line, int cores) const;
  std::string program(const std::string& side) const;

 private:
  std::string folder_;
  std::vector<std::string> rivals_;
};

}  // namespace tutti::cli::versus
