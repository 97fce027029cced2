#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "cli/bench/compare_libraries/states.h"
#include "cli/measure/measure.h"
#include "cli/measure/workload.h"

// The results of the comparison with other libraries: rows, and the CSV file that keeps them.

namespace tutti::cli::versus {

/// A point of the comparison: one call of one size between `ranks` ranks.
struct Point {
  std::string transport;  ///< "shm", "tcp", or "hosts:2": on two hosts
  measure::MeasuredCall call;
  int ranks = 2;
  std::size_t size = 0;  ///< requested bytes

  friend bool operator<(const Point& a, const Point& b) {
    return std::tie(a.transport, a.call, a.ranks, a.size) < std::tie(b.transport, b.call, b.ranks, b.size);
  }
  friend bool operator==(const Point& a, const Point& b) { return !(a < b) && !(b < a); }
};

/// One measurement of one side. If there are no figures, `trouble` has the reason.
struct Row {
  Point point;
  std::string side;  ///< "tutti", the name of another library, "limit"
  std::string setting;
  int repetition = 1;
  int cores = 1;
  std::size_t bytes = 0;  ///< as measured: rounded up to whole parts
  measure::Times times;
  std::uint64_t wrong = 0;
  double probe_before = 0;  ///< nanoseconds of a cache line to the other core and back
  double probe_after = 0;
  State state = State::mixed;  ///< by tell_states(), among all rows
  std::string trouble;

  bool good() const { return trouble.empty() && wrong == 0; }
  /// The figure that counts. It is the loop with computing, and up to 1 KiB with more ranks than cores; otherwise the
  /// single call. In these cases, a single call of a rooted collective shows when the root may continue and not what
  /// the call costs.
  double time() const { return by_loop() ? times.loop : times.single; }
  bool by_loop() const { return times.computing > 0 || (point.ranks > cores && point.size <= 1024); }
};

/// What rows say of their machine, beside the versions.
inline constexpr std::string_view the_processor = "the processor";
inline constexpr std::string_view the_gpu = "the GPU";

/// Rows in a file, with which an interrupted run can continue. Without a path they are only kept in memory.
class Ledger {
 public:
  enum class Use {
    measuring,  ///< a file that is missing is made
    reading,    ///< one must be there
  };
  /// Reads the file, up to a last line that was cut off. If only its newline is missing, the line counts. Throws
  /// Error{invalid_argument} if it has another format, {system}.
  explicit Ledger(std::string path, Use use = Use::measuring);

  /// Writes the row before it returns.
  void add(Row row);
  /// Throws Error{invalid_argument} if rows of `side` are of another version, or do not tell theirs. `side` may also be
  /// `the_processor`, of all rows, or `the_gpu`, of those on GPUs.
  void check_version(const std::string& side, const std::string& version) const;
  /// The same, and rows that follow are of this version.
  void set_version(const std::string& side, const std::string& version);
  /// By side, of those that tell theirs.
  const std::map<std::string, std::string>& versions() const { return versions_; }
  std::span<const Row> rows() const { return rows_; }
  /// The rows of one setting at one point.
  std::vector<const Row*> of(const Point& point, std::string_view side, std::string_view setting) const;

 private:
  void read(const std::string& text);
  [[noreturn]] void refuse(int line) const;
  void write(const std::string& line) const;

  std::string path_;
  std::vector<Row> rows_;
  std::map<std::string, std::string> versions_;
};

std::string csv_header();
std::string csv_line(const Row& row);

}  // namespace tutti::cli::versus
