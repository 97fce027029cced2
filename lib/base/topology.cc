// Which ranks are near each other. A core that reads what a core of another last-level cache has written waits several
// times as long as for one that shares its cache, so plans cross from one cache to another as seldom as they can.

#include "lib/base/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>

#include "lib/base/refuse.h"
#include "lib/base/suggest.h"
#include "lib/base/words.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr int most_number = 1 << 20;

std::optional<std::string> line_of(const std::string& path) {
  std::ifstream file{path};
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<int> number_in(std::string_view text) {
  int value = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = problem == std::errc{} && end == text.data() + text.size() && value >= 0 && value < most_number;
  return good ? std::optional{value} : std::nullopt;
}

/// "0-3,8", as the kernel writes lists of cores; nothing if it is not such a list. Its numbers ascend, so that a short
/// text has no more of them than there can be.
std::optional<std::vector<int>> numbers_in(std::string_view list) {
  std::vector<int> numbers;
  while (true) {
    const std::size_t comma = list.find(',');
    const std::string_view range = list.substr(0, comma);
    const std::size_t dash = range.find('-');
    const auto first = number_in(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number_in(range.substr(dash + 1));
    if (!first || !last || *last < *first || (!numbers.empty() && *first <= numbers.back())) return std::nullopt;
    for (int number = *first; number <= *last; ++number) numbers.push_back(number);
    if (comma == std::string_view::npos) return numbers;
    list.remove_prefix(comma + 1);
  }
}

std::vector<int> cores_in(std::string_view allowed) {
  std::vector<int> cores;
  for (std::size_t core = 0; core < allowed.size(); ++core)
    if (allowed[core] == '1') cores.push_back(static_cast<int>(core));
  return cores;
}

/// Whether a list of /sys has all those cores.
bool lists_all(const std::string& list, const std::vector<int>& cores) {
  const auto listed = numbers_in(list);
  return listed &&
         std::ranges::all_of(cores, [&](int core) { return std::ranges::find(*listed, core) != listed->end(); });
}

/// The cores that share the last-level cache of `core`, as the kernel lists them; empty if it does not say.
std::string sharers_of_cache(int core, const std::string& root) {
  std::string sharers;
  int highest = 0;
  for (int index = 0;; ++index) {
    const std::string cache = fmt::format("{}/sys/devices/system/cpu/cpu{}/cache/index{}/", root, core, index);
    const auto level = line_of(cache + "level");
    if (!level) return sharers;
    const int height = number_in(*level).value_or(0);
    if (height <= highest) continue;
    highest = height;
    sharers = line_of(cache + "shared_cpu_list").value_or("");
  }
}

std::string node_of(const std::vector<int>& cores, const std::string& root) {
  const std::string nodes = root + "/sys/devices/system/node/";
  for (const int node : numbers_in(line_of(nodes + "online").value_or("")).value_or(std::vector<int>{}))
    if (lists_all(line_of(fmt::format("{}node{}/cpulist", nodes, node)).value_or(""), cores))
      return std::to_string(node);
  return {};
}

/// "cache a node 0", in any order.
Place place_in(std::span<const std::string_view> words) {
  constexpr std::string_view known[] = {"cache", "node"};
  Place place;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (words[i] != "cache" && words[i] != "node")
      refuse(fmt::format("\"{}\" is neither cache nor node.{}", words[i], did_you_mean(words[i], known)));
    if (i + 1 == words.size()) refuse(fmt::format("the name after {} is missing", words[i]));
    std::string& name = words[i] == "cache" ? place.cache : place.node;
    if (!name.empty()) refuse(fmt::format("{} is given twice", words[i]));
    name = words[i + 1];
  }
  return place;
}

/// The place of several cores: where they differ, none.
Place common(std::span<const Place> places) {
  if (places.empty()) return {};
  Place all = places.front();
  for (const Place& place : places) {
    if (place.cache != all.cache) all.cache.clear();
    if (place.node != all.node) all.node.clear();
  }
  return all;
}

std::vector<int> domains_by(std::span<const Place> places, std::string Place::*name) {
  std::vector<std::string_view> names;
  std::vector<int> domains;
  for (const Place& place : places) {
    if ((place.*name).empty()) return {};
    const auto found = std::ranges::find(names, std::string_view{place.*name});
    domains.push_back(static_cast<int>(found - names.begin()));
    if (found == names.end()) names.emplace_back(place.*name);
  }
  const bool divides = names.size() > 1 && names.size() < places.size() && names.size() <= most_domains;
  return divides ? domains : std::vector<int>{};
}

}  // namespace

Place place_of(std::string_view allowed, const std::string& root) {
  const std::vector<int> cores = cores_in(allowed);
  if (cores.empty()) return {};
  Place place{.cache = sharers_of_cache(cores.front(), root), .node = node_of(cores, root)};
  if (!lists_all(place.cache, cores)) place.cache.clear();
  return place;
}

Topology Topology::parse(std::string_view text, std::string_view file_name) {
  Topology topology;
  int line = 0;
  while (!text.empty()) {
    const std::string_view whole = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), whole.size() + 1));
    ++line;
    const std::vector<std::string_view> words = words_of(whole.substr(0, whole.find('#')));
    if (words.empty()) continue;
    try {
      if (words[0] != "rank" && words[0] != "core")
        refuse(fmt::format("a line begins with rank or core, not with \"{}\"", words[0]));
      if (words.size() < 3)
        refuse(fmt::format("expected \"{} 0-3 cache NAME node NAME\", cache or node or both", words[0]));
      const auto numbers = numbers_in(words[1]);
      if (!numbers)
        refuse(fmt::format("\"{}\" is not a list of {}s such as 0-3,8, from the lowest on", words[1], words[0]));
      const Place place = place_in(std::span{words}.subspan(2));
      std::map<int, Place>& places = words[0] == "rank" ? topology.by_rank_ : topology.by_core_;
      for (const int number : *numbers)
        if (!places.emplace(number, place).second)
          refuse(fmt::format("{} {} has a place already, on a line before", words[0], number));
    } catch (const Error& error) {
      refuse(fmt::format("{}:{}: {}", file_name, line, error.what()));
    }
  }
  return topology;
}

Place Topology::place_of(int rank, std::string_view allowed) const {
  if (const auto found = by_rank_.find(rank); found != by_rank_.end()) return found->second;
  std::vector<Place> places;
  for (const int core : cores_in(allowed)) {
    const auto found = by_core_.find(core);
    places.push_back(found == by_core_.end() ? Place{} : found->second);
  }
  return common(places);
}

std::vector<Place> Topology::places_of(int ranks) const {
  std::vector<Place> places;
  for (int rank = 0; rank < ranks; ++rank) places.push_back(place_of(rank, {}));
  return places;
}

int ranks_on_each_host(std::span<const int> hosts) {
  const auto ranks = std::ssize(hosts);
  const auto on_first = std::ranges::count(hosts, hosts.front());
  if (on_first == ranks || ranks % on_first != 0) return 0;
  for (std::ptrdiff_t rank = 0; rank < ranks; ++rank)
    if (std::ranges::find(hosts, hosts[static_cast<std::size_t>(rank)]) - hosts.begin() != rank / on_first * on_first)
      return 0;
  return static_cast<int>(on_first);
}

std::vector<int> domains_of(std::span<const Place> places) {
  const std::vector<int> by_cache = domains_by(places, &Place::cache);
  return by_cache.empty() ? domains_by(places, &Place::node) : by_cache;
}

}  // namespace tutti
