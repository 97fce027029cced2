#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "cli/plan/page/run.h"
#include "cli/plan/replay.h"

namespace tutti::cli {

inline constexpr int fewest_ranks_on_page = 2;
inline constexpr int most_ranks_on_page = 16;
inline constexpr int default_ranks_on_page = 4;
inline constexpr int most_slices_on_page = 32;  ///< of the curves

/// A measured time, to be drawn over the cost curves.
struct MeasuredPoint {
  Collective collective{};
  std::string algorithm;
  int ranks = 0;
  std::size_t bytes = 0;
  double microseconds = 0;
};

/// Reads a file of `tutti bench -J`. Throws Error{invalid_argument} that names the file and its error.
std::vector<MeasuredPoint> read_points(const std::string& path);

/// What the page shows first. It also contains everything else that it can show.
struct PageStart {
  Collective collective{};
  std::vector<algorithms::Choice> choices;  ///< one, or two beside each other
  int ranks = default_ranks_on_page;
  int root = 0;  ///< for plans that have one, and that many ranks
  int step = 0;
  Model model;
  std::vector<MeasuredPoint> points;
  std::optional<Run> run;  ///< the run to replay; the other members then say what is shown of it
};

/// A self-contained page: the plans of the whole catalogue and of `choices`, over 2 to 16 ranks, and a replayer
/// (cli/plan/page/web/) that runs them in the browser as algorithms/replay.h does here. Throws Error{invalid_argument}
/// if it would be 400 kB or more, or if a plan is wrong.
std::string to_html(const PageStart& start);

/// The options of the page.
struct PageOptions {
  std::string html;                   ///< output file
  std::string compare;                ///< two names with a comma between them
  std::string points;                 ///< a file of `tutti bench -J`
  std::string trace;                  ///< a file of `tutti run --trace`
  std::optional<std::uint64_t> call;  ///< number of one of its calls
  bool any() const { return !html.empty() || !compare.empty() || !points.empty() || !trace.empty() || call; }
};

/// Optional settings; missing ones are taken from the trace, or are defaults.
struct PageWish {
  std::optional<Collective> collective;
  std::string algorithm;
  std::optional<int> ranks;
  std::optional<int> root;
  std::optional<int> step;
  std::optional<std::size_t> bytes;
  Model model;  ///< its bytes are used if none are given
};

/// Writes the page and prints its name. Algorithms are those of `compare` or `algorithm`. By default they are ring and
/// double binary tree for an all_reduce, else the first two of the catalogue. With a trace everything is taken from its
/// run. Throws Error{invalid_argument} that says what is wrong.
void write_page(const PageOptions& options, const PageWish& wish);

/// For to_html: all plans as numbers, which cli/plan/page/web/plans.js reads.
class PagePlans {
 public:
  /// Ranks 2 to 16. Throws as to_html does.
  void add(Collective collective, const algorithms::Choice& choice, int root, std::size_t bytes);
  /// Adds plans for that number of ranks only; the choice is settled.
  void add_one(Collective collective, const algorithms::Choice& choice, int ranks, int root);
  std::string text() const;

 private:
  void add_trees(const View& view);
  void add_plan(const algorithms::Plan& plan);
  void add_depths(const View& view);
  void add_blocks(const algorithms::Blocks& blocks, const algorithms::Plan& plan);
  void put(int number) { numbers_.push_back(static_cast<std::uint32_t>(number)); }

  std::vector<std::uint32_t> numbers_;
};

}  // namespace tutti::cli
