#pragma once

#include <string>
#include <vector>

#include "cli/bench/compare_libraries/settings.h"

// The libraries that are compared, and where they are.

namespace tutti::cli::versus {

/// Where the programs of the comparison and the private installations are; empty: where the build of this program put
/// them.
struct Folders {
  std::string rivals;  ///< the programs tutti-rival-*
  std::string peers;   ///< what tools/peers/install made
};

/// The programs of the comparison, and which of them exist.
class Sides {
 public:
  /// `names` are those of other libraries, or "all" for the available ones. Throws Error{invalid_argument} for an
  /// unknown name, and {unsupported}, saying how to install it, for a library that is not there.
  Sides(const Folders& folders, const std::vector<std::string>& names);

  const std::vector<std::string>& rivals() const { return rivals_; }
  /// Every way to start every side for `line`: tutti's first, then the rivals', then the limit's. A rival that lacks
  /// the line has none.
  std::vector<Setting> settings(const Line& line, int cores) const;
  /// The side has the collective and the transport.
  bool has(const std::string& side, const Line& line) const;
  /// The sizes that are measured with this side.
  std::vector<std::size_t> sizes(const std::string& side, const Line& line, int cores) const;
  /// Why a side is missing on some lines, for people; empty if it is not.
  std::string remark(const std::string& side, const Line& line, int cores) const;
  std::string program(const std::string& side) const;
  /// The words that have `side` print its version.
  std::vector<std::string> ask_version(const std::string& side) const;
  /// From now on only these libraries are compared; with `with_own_in_torch`, torch.distributed is measured over tutti,
  /// too, where it is measured over Gloo.
  void compare_only(const std::vector<std::string>& rivals, bool with_own_in_torch);

 private:
  std::string folder_;
  Places places_;
  std::vector<std::string> rivals_;
  bool has_own_in_torch_ = false;
};

}  // namespace tutti::cli::versus
