// Reads network files: a keyword and its values on each line, `#` starts a comment, and there are no implicit units.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>
#include <utility>

#include "algorithms/catalogue.h"
#include "cli/base/sizes.h"
#include "cli/simulate/network.h"
#include "lib/base/refuse.h"
#include "lib/base/suggest.h"
#include "lib/base/text_file.h"
#include "tutti/error.h"

namespace tutti::cli::simulate {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view keywords[] = {"name", "socket", "host", "leaf", "start", "reduce",
                                         "copy", "shared", "link", "gpu",  "for"};

Words words_of(const std::string& line) {
  std::istringstream stream{line.substr(0, line.find('#'))};
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

struct Unit {
  std::string_view name;
  double factor;
};

/// A non-negative number, directly followed by one of the units.
template <std::size_t N>
double quantity(const std::string& text, const Unit (&units)[N], const char* what, const char* example) {
  double value = -1;
  const char* const end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, value);
  const std::string_view rest{at, static_cast<std::size_t>(end - at)};
  for (const Unit& unit : units)
    if (problem == std::errc{} && std::isfinite(value) && value >= 0 && rest == unit.name) return value * unit.factor;
  refuse(fmt::format("{} must be like {}, not \"{}\"", what, example, text));
}

/// In picoseconds.
double duration(const std::string& text, const char* what) {
  constexpr Unit units[] = {{"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}};
  const double value = quantity(text, units, what, "350ns, 2.7us or 1ms");
  if (value > 1e15) refuse(fmt::format("{} of \"{}\" is more than a thousand seconds", what, text));
  return std::round(value);
}

/// "12.5GB/s" or "100Gb/s" as picoseconds per byte; "unlimited" is 0.
double per_byte(const std::string& text, const char* what) {
  constexpr Unit units[] = {{"MB/s", 1e6}, {"GB/s", 1e9}, {"Mb/s", 1e6 / 8}, {"Gb/s", 1e9 / 8}};
  if (text == "unlimited") return 0;
  const double rate = quantity(text, units, what, "12.5GB/s, 100Gb/s or unlimited");
  if (rate < 1e3) refuse(fmt::format("{} of \"{}\" is less than a kilobyte per second", what, text));
  return 1e12 / rate;
}

int rank_count(const std::string& text, const std::string& what) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc{} || at != end || value < 1 || value > 1 << 24)
    refuse(fmt::format("{} must be a number of ranks, at least 1, not \"{}\"", what, text));
  return value;
}

std::size_t distance_named(const std::string& word) {
  std::vector<std::string_view> known;
  for (std::size_t i = 0; i < distances; ++i) known.push_back(simulate::name_of(static_cast<Distance>(i)));
  const auto found = std::find(known.begin(), known.end(), word);
  if (found == known.end())
    refuse(fmt::format("there is no distance \"{}\".{} There are: socket, host, leaf, far", word,
                       did_you_mean(word, known)));
  return static_cast<std::size_t>(found - known.begin());
}

void check_algorithm(const std::string& name) {
  std::vector<std::string_view> known;
  for (const algorithms::Entry& entry : algorithms::catalogue()) known.push_back(entry.name);
  if (std::find(known.begin(), known.end(), name) == known.end())
    refuse(fmt::format("there is no algorithm \"{}\".{} `tutti plan --list` has all of them", name,
                       did_you_mean(name, known)));
}

void want(const Words& words, std::size_t least, std::size_t most, const char* form) {
  if (words.size() < least || words.size() > most) refuse(fmt::format("expected \"{}\"", form));
}

}  // namespace

class NetworkParser {
 public:
  explicit NetworkParser(std::string_view file_name) : file_name_(file_name) {}

  NetworkFile run(std::string_view text) {
    std::istringstream stream{std::string{text}};
    try {
      for (std::string line; std::getline(stream, line);) {
        ++number_;
        if (const Words words = words_of(line); !words.empty()) read(words, line);
      }
      if (file_.sections_.empty()) check_general();
    } catch (const Error& error) {
      const std::string message = error.what();
      refuse(fmt::format("{}:{}: {}{}", file_name_, std::max(1, number_), message,
                         message.ends_with('.') || message.ends_with('?') ? "" : "."));
    }
    return std::move(file_);
  }

 private:
  Network& network() { return file_.sections_.empty() ? file_.general_ : file_.sections_.back().network; }

  /// Allowed once per section, except for links.
  void note(const std::string& what) {
    if (const auto [seen, is_new] = seen_.emplace(what, number_); !is_new)
      refuse(fmt::format("\"{}\" is given twice, first in line {}; leave out one of them", what, seen->second));
  }

  void read(const Words& words, const std::string& line) {
    const std::string& key = words[0];
    if (std::find(std::begin(keywords), std::end(keywords), key) == std::end(keywords))
      refuse(fmt::format("there is no keyword \"{}\".{} There are: {}", key, did_you_mean(key, keywords),
                         fmt::join(keywords, ", ")));
    if (key == "for") return begin_section(words);
    if (key == "link") return read_link(words);
    if (key == "shared") return read_shared(words);
    if (key == "gpu") return read_gpu(words);
    note(key);
    const bool places = key == "socket" || key == "host" || key == "leaf";
    if (!file_.sections_.empty() && (places || key == "name"))
      refuse(fmt::format("\"{}\" is for the whole network and must come before the first \"for\"", key));
    if (key == "name") {
      want(words, 2, 99, "name WORDS");
      const std::string text = line.substr(0, line.find('#'));
      const std::size_t begin = text.find_first_not_of(" \t", text.find("name") + 4);
      network().name = text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
      return;
    }
    want(words, 2, 2, (key + " VALUE").c_str());
    if (key == "socket") network().socket = rank_count(words[1], key);
    if (key == "host") network().host = rank_count(words[1], key);
    if (key == "leaf") network().leaf = rank_count(words[1], key);
    if (key == "start") network().start = duration(words[1], "start");
    if (key == "reduce") network().reduce_per_byte = per_byte(words[1], "the speed of reductions");
    if (key == "copy") network().copy_per_byte = per_byte(words[1], "the speed of copies");
  }

  void begin_section(const Words& words) {
    want(words, 2, 99, "for ALGORITHM [ALGORITHM...]");
    if (file_.sections_.empty()) check_general();
    if (file_.general_.gpu) refuse("\"for\" has no meaning where ranks share a GPU; leave it out");
    const Words names{words.begin() + 1, words.end()};
    for (const std::string& name : names) {
      check_algorithm(name);
      for (const auto& section : file_.sections_)
        if (std::find(section.algorithms.begin(), section.algorithms.end(), name) != section.algorithms.end())
          refuse(fmt::format("\"{}\" has a section already", name));
    }
    file_.sections_.push_back({names, file_.general_});
    seen_.clear();
  }

  void read_shared(const Words& words) {
    want(words, 3, 3, "shared host|leaf BANDWIDTH");
    note("shared " + words[1]);
    if (words[1] == "host")
      network().shared_host = per_byte(words[2], "the bandwidth");
    else if (words[1] == "leaf")
      network().shared_leaf = per_byte(words[2], "the bandwidth");
    else
      refuse(fmt::format("only \"host\" or \"leaf\" can be shared, not \"{}\"", words[1]));
  }

  /// A GPU is that of the whole file, and no algorithm has one of its own.
  void read_gpu(const Words& words) {
    want(words, 3, 3, "gpu memory BANDWIDTH, or gpu kernel|wait|signal|latency|change TIME");
    if (!file_.sections_.empty()) refuse("\"gpu\" is for the whole network and must come before the first \"for\"");
    if (!network().gpu) network().gpu = Network::Gpu{};
    Network::Gpu& gpu = *network().gpu;
    const std::pair<std::string_view, double*> times[] = {{"kernel", &gpu.kernel},
                                                          {"wait", &gpu.wait},
                                                          {"signal", &gpu.signal},
                                                          {"latency", &gpu.latency},
                                                          {"change", &gpu.change}};
    note("gpu " + words[1]);
    if (words[1] == "memory") {
      gpu.per_byte = per_byte(words[2], "the bandwidth");
      return;
    }
    const auto time =
        std::ranges::find(times, std::string_view{words[1]}, &std::pair<std::string_view, double*>::first);
    if (time == std::end(times))
      refuse(fmt::format("a gpu has memory, kernel, wait, signal, latency and change, not \"{}\"", words[1]));
    *time->second = duration(words[2], "the time");
  }

  /// Each of its lines is required.
  void check_gpu() {
    for (const char* const what : {"memory", "kernel", "wait", "signal", "latency", "change"})
      if (!seen_.contains(std::string{"gpu "} + what))
        refuse(fmt::format("until here a line \"gpu {} {}\" is missing", what, *what == 'm' ? "BANDWIDTH" : "TIME"));
    const auto is_of_links = [](const auto& seen) {
      const std::string& word = seen.first;
      return word.starts_with("link") || word.starts_with("shared") || word == "reduce" || word == "copy" ||
             word == "socket" || word == "host" || word == "leaf";
    };
    const auto line = std::ranges::find_if(seen_, is_of_links);
    if (line == seen_.end()) return;
    number_ = line->second;
    refuse(fmt::format("\"{}\" has no meaning where ranks share a GPU; leave it out", line->first));
  }

  void read_link(const Words& words) {
    constexpr const char* form = "link DISTANCE [from BYTES] LATENCY GAP BANDWIDTH";
    const bool has_from = words.size() > 2 && words[2] == "from";
    want(words, has_from ? 7 : 5, has_from ? 7 : 5, form);
    const std::size_t at = distance_named(words[1]);
    std::vector<Network::Tier>& tiers = network().links[at];
    const std::size_t first = has_from ? 4 : 2;
    Network::Tier tier{0, duration(words[first], "the latency"), duration(words[first + 1], "the gap"),
                       per_byte(words[first + 2], "the bandwidth")};
    if (has_from) {
      const auto bytes = parse_bytes(words[3]);
      if (!bytes || *bytes == 0) refuse(fmt::format("\"from\" takes a size such as 128K, not \"{}\"", words[3]));
      tier.from = *bytes;
      if (tiers.empty() || tiers.back().from >= tier.from)
        refuse(fmt::format("links of {} must begin without \"from\" and go on with larger sizes", words[1]));
    } else {
      note("link " + words[1]);
      tiers.clear();
    }
    tiers.push_back(tier);
  }

  /// At the end of what is for the whole network, which is the line that its errors name.
  void check_general() {
    const Network& network = file_.general_;
    if (network.name.empty()) refuse("until here a line \"name WORDS\" is missing");
    if (network.gpu) return check_gpu();
    for (std::size_t i = 0; i < distances; ++i)
      if (network.links[i].empty())
        refuse(fmt::format("until here a line \"link {} LATENCY GAP BANDWIDTH\" is missing",
                           simulate::name_of(static_cast<Distance>(i))));
    check_multiple("host", network.host, "socket", network.socket);
    check_multiple("leaf", network.leaf, "host", network.host);
  }

  /// The line at fault is that of the larger, unless it is not given and thus 1.
  void check_multiple(const char* larger, int many, const char* smaller, int few) {
    if (many % few == 0) return;
    const auto line = seen_.find(seen_.contains(larger) ? larger : smaller);
    if (line != seen_.end()) number_ = line->second;
    refuse(fmt::format("\"{}\" must be a multiple of \"{}\", and {} is none of {}; give another \"{}\"", larger,
                       smaller, many, few, larger));
  }

  std::string file_name_;
  NetworkFile file_;
  int number_ = 0;                   ///< of the line that is read, or at fault
  std::map<std::string, int> seen_;  ///< what the section has, and in which line
};

NetworkFile NetworkFile::parse(std::string_view text, std::string_view file_name) {
  return NetworkParser{file_name}.run(text);
}

NetworkFile NetworkFile::open(const std::string& name_or_path) {
  std::string names;
  for (const BuiltinNetwork& one : builtin_networks()) {
    if (one.name == name_or_path) return parse(one.text, name_or_path);
    names += (names.empty() ? "" : ", ") + std::string{one.name};
  }
  const TextFile file = read_text_file(name_or_path);
  if (!file.problem.empty())
    refuse(fmt::format("simulate: cannot read the network file \"{}\": {}. Without a file there are: {}.", name_or_path,
                       file.problem, names));
  return parse(file.text, name_or_path);
}

Network NetworkFile::for_algorithm(std::string_view algorithm) const {
  for (const Section& section : sections_)
    for (const std::string& name : section.algorithms)
      if (name == algorithm) return section.network;
  return general_;
}

}  // namespace tutti::cli::simulate
