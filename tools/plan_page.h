#pragma once

#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "tools/plan_replay.h"

namespace tutti::tools {

inline constexpr int fewest_ranks_on_page = 2;
inline constexpr int most_ranks_on_page = 16;

/// A measured time, to be laid over the cost curves.
struct MeasuredPoint {
  std::string algorithm;
  int ranks = 0;
  std::size_t bytes = 0;
  double microseconds = 0;
};

/// Reads what `tutti bench -J` wrote. Throws Error{invalid_argument} that names the file and what is wrong with it.
std::vector<MeasuredPoint> read_points(const std::string& path);

/// What the page shows first; all else that it can show is in it as well.
struct PageStart {
  Collective collective{};
  std::vector<algorithms::Choice> choices;  ///< one, or two beside each other
  int ranks = 8;
  int root = 0;  ///< of plans that have one, and that many ranks
  int step = 0;
  Model model;
  std::vector<MeasuredPoint> points;
};

/// A page that needs nothing else: the plans of the whole catalogue, and of `choices`, over 2 to 16 ranks, and a
/// replayer (tools/page/) that runs them in the browser as algorithms/replay.h does here. Throws
/// Error{invalid_argument} when it would be 300 kB or more, or a plan is wrong.
std::string to_html(const PageStart& start);

/// What the command line says of it.
struct PageOptions {
  std::string html;     ///< where it goes
  std::string compare;  ///< two names with a comma between them
  std::string points;   ///< a file of `tutti bench -J`
  bool any() const { return !html.empty() || !compare.empty() || !points.empty(); }
};

/// Writes the page and says so. Algorithms are those of `compare` or `algorithm`; without them ring beside the two
/// trees for an all_reduce, else the first two of the catalogue. Throws Error{invalid_argument} that says what is
/// wrong.
void write_page(const PageOptions& options, const std::string& algorithm, PageStart start);

/// For to_html: all plans as numbers. tools/page/plans.js reads them.
class PagePlans {
 public:
  /// Ranks 2 to 16. Throws as to_html does.
  void add(Collective collective, const algorithms::Choice& choice, int root, std::size_t bytes);
  std::string text() const;

 private:
  void add_trees(const View& view);
  void add_plan(const algorithms::Plan& plan);
  void add_blocks(const algorithms::Blocks& blocks, const algorithms::Plan& plan);
  void put(int number) { numbers_.push_back(static_cast<std::uint32_t>(number)); }

  std::vector<std::uint32_t> numbers_;
};

}  // namespace tutti::tools
