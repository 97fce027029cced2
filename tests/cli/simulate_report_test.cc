// What tutti simulate says about calls that it timed: the table, and the drawing.

#include <doctest/doctest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "cli/simulate/runs.h"

namespace tutti::cli::simulate {
namespace {

Timed timed(const std::string& name, std::size_t bytes, double seconds, int ranks = 64) {
  const algorithms::Choice choice = algorithms::find(Collective::all_reduce, name);
  return {{Collective::all_reduce, settled(choice, ranks, bytes), ranks, 0, bytes, nullptr, to_string(choice)},
          {seconds, 1, "made up"},
          0};
}

/// The first groups of all matches.
std::vector<std::string> all_of(const std::string& pattern, const std::string& text) {
  const std::regex expression{pattern};
  std::vector<std::string> found;
  for (std::sregex_iterator at{text.begin(), text.end(), expression}; at != std::sregex_iterator{}; ++at)
    found.push_back((*at)[1]);
  return found;
}

TEST_CASE("simulate: no time and no rate is rounded to nothing") {
  CHECK(time_text(2.5) == "2.500 s");
  CHECK(time_text(2.5e-3) == "2.500 ms");
  CHECK(time_text(2.5e-6) == "2.50 us");
  CHECK(time_text(2.5e-9) == "2.500 ns");
  CHECK(time_text(25e-12) == "25 ps");
  CHECK(to_table({timed("ring", 8, 1)}).find(" 1.58e-08 ") != std::string::npos);
}

TEST_CASE("simulate: every choice has a curve and a line of the legend, also with another message size") {
  std::vector<Timed> all;
  for (const char* name : {"ring", "ring/64K", "ring*4", "tree:2", "tree:2/64K"})
    for (const std::size_t bytes : {8U, 1U << 20}) all.push_back(timed(name, bytes, static_cast<double>(bytes) * 1e-9));
  const std::string svg = to_svg(all, "made up");
  const auto legend = all_of("text-anchor=\"start\">([^<]*)<", svg);
  CHECK(std::set<std::string>(legend.begin() + 1, legend.end()) ==
        std::set<std::string>{"ring", "ring/64K", "ring*4", "tree:2", "tree:2/64K"});
  // Those that coincide show through the gaps of the others.
  const auto dashes = all_of("stroke-dasharray=\"([^\"]*)\"", svg);
  CHECK(std::set<std::string>(dashes.begin(), dashes.end()).size() == legend.size() - 1);
  CHECK(dashes.front() == "none");
}

TEST_CASE("simulate: a drawing has room for all of its curves and names") {
  std::vector<Timed> all;
  for (std::size_t bytes = 1; bytes <= std::size_t{1} << 30; bytes *= 2)
    for (const int ranks : {2, 64})
      all.push_back(timed("tree_of_chains:2/64K", bytes, 1e-12 * static_cast<double>(bytes), ranks));
  const std::string svg = to_svg(all, "made up");
  const double height = std::stod(all_of("height=\"([0-9.]+)\" font", svg).front());
  for (const std::string& y : all_of(" y=\"([0-9.-]+)\"", svg)) CHECK(std::stod(y) < height);
  const double width = std::stod(all_of("svg\" viewBox=\"0 0 ([0-9.]+)", svg).front());
  CHECK(width > 686 + 6.5 * 32);  // "tree_of_chains:2/64K, 1024M bytes"
  // The axis begins at or below the shortest time, which is a picosecond.
  CHECK(svg.find(">1 ps<") != std::string::npos);
  for (const std::string& y : all_of(" cy=\"([0-9.-]+)\"", svg)) CHECK(std::stod(y) <= 380.05);
}

}  // namespace
}  // namespace tutti::cli::simulate
