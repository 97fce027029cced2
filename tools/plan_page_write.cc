// `tutti plan --html`: what the command line asks of the page.

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "tools/plan_page.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

using algorithms::Choice;

[[noreturn]] void wrong(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, "plan: " + message + " (tutti plan --help)");
}

std::vector<Choice> named(Collective collective, const std::string& names) {
  std::vector<Choice> choices;
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t comma = std::min(names.find(',', at), names.size());
    choices.push_back(algorithms::find(collective, names.substr(at, comma - at)));
    at = comma + 1;
  }
  return choices;
}

std::vector<Choice> unasked(Collective collective) {
  if (collective == Collective::all_reduce) return named(collective, "ring,double_binary_tree");
  std::vector<Choice> choices;
  for (const algorithms::Entry& entry : algorithms::catalogue(collective).first(2)) choices.push_back({&entry});
  return choices;
}

}  // namespace

void write_page(const PageOptions& options, const std::string& algorithm, PageStart start) {
  if (start.ranks < fewest_ranks_on_page || start.ranks > most_ranks_on_page)
    wrong(fmt::format("--html takes -n {} to {}, not {}", fewest_ranks_on_page, most_ranks_on_page, start.ranks));
  if (!options.compare.empty() && !algorithm.empty()) wrong("--compare names the algorithms; leave --algo away");
  start.choices = named(start.collective, options.compare.empty() ? algorithm : options.compare);
  if (start.choices.size() > 2) wrong(fmt::format("--compare takes two algorithms, not {}", start.choices.size()));
  if (start.choices.empty()) start.choices = unasked(start.collective);
  if (!options.points.empty()) start.points = read_points(options.points);
  const std::string page = to_html(start);
  std::ofstream file{options.html, std::ios::binary};
  file << page << std::flush;
  if (!file)
    throw Error{ErrorCode::system, fmt::format("plan: cannot write {}: {}", options.html, std::strerror(errno))};
  fmt::print("Written: {}, {} kB; open it in a browser\n", options.html, (page.size() + 999) / 1000);
}

}  // namespace tutti::tools
