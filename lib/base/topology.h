#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// Where the cores of a process lie. The names only serve to compare processes of one host. A name is empty if it is
/// unknown, or if the cores lie in several: the process may then run in any of them.
struct Place {
  std::string cache;  ///< of the last level: the cores that share it, "0-7"
  std::string node;   ///< of NUMA: its number
  friend bool operator==(const Place&, const Place&) = default;
};

/// The place of the cores `allowed`, as allowed_cores() writes them, by /sys. `root` is prepended to every path, for
/// tests with their own files.
Place place_of(std::string_view allowed, const std::string& root = {});

/// Places that a file gives in place of /sys (TUTTI_TOPOLOGY). Each line names ranks or cores, and where they lie; `#`
/// starts a comment:
///
///   rank 0-2,5  cache a  node 0      cache, node, or both; the names are any words
///   core 0-7    cache b              holds for ranks that are on no line
class Topology {
 public:
  /// Throws Error{invalid_argument} naming file, line and error.
  static Topology parse(std::string_view text, std::string_view file_name);

  Place place_of(int rank, std::string_view allowed) const;
  /// Of the ranks from 0 to `ranks` - 1 by their lines alone.
  std::vector<Place> places_of(int ranks) const;

 private:
  std::map<int, Place> by_rank_;
  std::map<int, Place> by_core_;
};

/// How many neighbouring ranks each of several hosts has; `hosts` names that of each rank by any number. 0: they
/// differ, or their ranks are not neighbours, or there is one host, within which plans need not tell near from far.
int ranks_on_each_host(std::span<const int> hosts);

/// The domain of each rank of one host, by its place: domains are numbered in the order of their first ranks. They are
/// the ranks that share a last-level cache, or a NUMA node where that is unknown of some rank, or where no two ranks
/// share a cache, or too many caches are in use. Empty: that divides the ranks into no domains, since all share one, or
/// no two share any, or some rank is in none.
std::vector<int> domains_of(std::span<const Place> places);
/// With more domains than that, exchanges between them take too many rounds.
inline constexpr int most_domains = 8;

}  // namespace tutti
