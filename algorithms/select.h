#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/catalogue.h"

namespace tutti::algorithms {

/// What stands in a table's line for calls of GPUs that go through the host.
inline constexpr std::string_view staged_word = "staged";

/// The inputs of the choice.
struct Situation {
  Collective collective{};
  int ranks = 1;
  std::size_t bytes = 0;  ///< of the larger of one rank's input and output
  /// "shm", "tcp", "inproc". "hosts": several hosts with as many neighbouring ranks on each, and more than one; other
  /// ranks of several hosts have "tcp". GPUs have "cuda_ipc", slots in memory of GPUs on one host; "cuda_peers", where
  /// each rank has a GPU of its own and kernels use the memory of others; "cuda_leader", the same where ranks share
  /// GPUs; "cuda_hosts", several hosts.
  std::string_view transport{};
  bool oversubscribed = false;  ///< more ranks than cores on some host
  bool equal_parts = true;      ///< not a _v call
  bool rank_order = false;      ///< option `deterministic`
  bool boards = true;           ///< boards may be used besides links
  int ranks_on_each_host = 0;   ///< neighbouring ranks, where plans should look at hosts; else 0
  std::vector<int> domains{};   ///< by rank, as in Shape, where plans should look at domains; else empty
};

/// A tuning table: lines of `collective transport ranks bytes algorithm`, first match wins, `#` starts a comment.
/// `transport` is a name or `*`; `ranks` and `bytes` are `lo-hi` (both included), `lo-`, a number or `*`, with K, M and
/// G. A sixth word restricts the line to jobs in which some host has more ranks than cores (`oversubscribed`), or to
/// jobs without such a host (`core-per-rank`). The word `domains` at the end restricts it to ranks of one host that are
/// in several domains of caches or memory, and its algorithm gets those. In lines for `hosts` and `cuda_hosts` an
/// algorithm that has a radix, which the line does not give, gets the number of ranks on each. For kinds of GPUs the
/// word `staged` may stand in place of an algorithm: such calls go through the host, where a line for the host's
/// transport decides.
class TuningTable {
 public:
  /// The built-in table (see tuning_table.inc).
  static const TuningTable& builtin();
  /// Throws Error{invalid_argument} naming file, line and error.
  static TuningTable parse(std::string_view text, std::string_view file_name);

  /// Never fails: if no line of this table matches, the built-in table decides, and its fallback is the first catalogue
  /// entry that fits. `why`, if given, gets a sentence.
  Choice select(const Situation& situation, std::string* why = nullptr) const;
  /// Whether the first line that matches says `staged`. select() passes over such lines.
  bool stages(const Situation& situation) const;

  struct Line {
    int number;
    std::string text;
  };
  std::vector<Line> lines() const;
  /// The numbers of the lines that decide calls of some size in that situation, whatever its own.
  std::set<int> deciding(Situation situation) const;

 private:
  /// Jobs to which a line applies.
  enum class Crowd : std::uint8_t { any, oversubscribed, core_per_rank };

  struct Row {
    Collective collective;
    std::string transport;
    std::size_t ranks_from, ranks_to;
    std::size_t bytes_from, bytes_to;
    Choice choice;
    bool gives_radix;
    bool staged;  ///< it has no choice
    Crowd crowd;
    bool by_domains;
    std::string text;
    int line;

    bool covers(const Situation& situation) const;
    /// It covers the situation, and its algorithm serves it.
    bool serves(const Situation& situation) const;
    /// The same, or it says that such calls are staged.
    bool decides(const Situation& situation) const;
  };
  /// The choice of the first line that serves.
  std::optional<Choice> find_line(const Situation& situation, std::string* why) const;
  bool has_lines_for_hosts(Collective collective) const;
  static Row parse_row(std::vector<std::string_view> words, int line);
  static Crowd crowd_in(std::string_view word);

  std::string file_name_;
  std::vector<Row> rows_;
};

}  // namespace tutti::algorithms
