// The only place that chooses an algorithm. A table has the fastest ones, and a line is skipped if its algorithm does
// not serve the call (uneven parts, sums in rank order, domains of another number of ranks).

#include "algorithms/select.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "lib/base/collective_traits.h"
#include "lib/base/refuse.h"
#include "lib/base/suggest.h"
#include "lib/base/words.h"
#include "tutti/error.h"

namespace tutti::algorithms {
namespace {

constexpr std::size_t no_end = std::numeric_limits<std::size_t>::max();
constexpr std::array<std::string_view, 9> transports{"shm",        "tcp",         "inproc",     "hosts", "cuda_ipc",
                                                     "cuda_peers", "cuda_leader", "cuda_hosts", "*"};
constexpr std::string_view builtin_text =
#include "algorithms/tuning_table.inc"
    ;

std::string quoted(std::string_view text) { return "\"" + std::string{text} + "\""; }

std::string joined(const std::vector<std::string_view>& words) {
  std::string text;
  text.reserve(64);
  for (const std::string_view word : words) {
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

/// "16" or "4K".
std::size_t number_in(std::string_view text, std::string_view whole, const char* column) {
  std::size_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, value);
  constexpr std::string_view units = "KMG";
  const std::size_t unit = at == end ? units.size() : units.find(*at);
  const bool has_unit = unit < units.size();
  if (problem != std::errc{} || (at != end && (!has_unit || at + 1 != end)))
    refuse("column " + std::string{column} + " must be \"lo-hi\", \"lo-\", a number or \"*\", with K, M or G, not " +
           quoted(whole) + ".");
  const std::size_t shift = has_unit ? 10 * (unit + 1) : 0;
  if (value > no_end >> shift) refuse("column " + std::string{column} + ": " + quoted(text) + " is too large.");
  return value << shift;
}

struct Range {
  std::size_t from = 0;
  std::size_t to = no_end;
};

Range range_in(std::string_view text, const char* column) {
  if (text == "*") return {};
  const std::size_t dash = text.find('-');
  const std::size_t from = number_in(text.substr(0, dash), text, column);
  if (dash == std::string_view::npos) return {from, from};
  const std::size_t to = dash + 1 == text.size() ? no_end : number_in(text.substr(dash + 1), text, column);
  if (from > to) refuse("column " + std::string{column} + ": " + quoted(text) + " ends before it begins.");
  return {from, to};
}

/// Without a board it needs a link from each rank to each other. In shared memory each link has a quarter of a MiB of
/// its own, which for 128 ranks would be 4 GiB. Where results must be in rank order nothing else may serve.
bool takes_too_many_links(const Entry& entry, const Situation& situation) {
  constexpr int most_ranks = 32;
  return entry.mesh && !detail::is_rooted(entry.collective) && !situation.boards && situation.ranks > most_ranks &&
         !situation.rank_order && situation.transport == "shm";
}

bool fits(const Choice& choice, const Situation& situation) {
  const Entry& entry = *choice.entry;
  if (takes_too_many_links(entry, situation) || !suits(choice, situation.ranks)) return false;
  if (entry.equal_parts && !situation.equal_parts) return false;
  return !situation.rank_order || entry.rank_order || !detail::is_reduction(entry.collective);
}

std::string told(const Situation& situation) {
  return std::string{name_of(situation.collective)} + " of " + std::to_string(situation.bytes) + " bytes over " +
         std::to_string(situation.ranks) + " ranks by " + std::string{situation.transport} +
         (situation.oversubscribed ? ", more ranks than cores" : "") + (situation.equal_parts ? "" : ", uneven parts") +
         (situation.rank_order ? ", in rank order" : "");
}

}  // namespace

bool TuningTable::Row::covers(const Situation& situation) const {
  const auto count = static_cast<std::size_t>(situation.ranks);
  return collective == situation.collective && (transport == "*" || transport == situation.transport) &&
         ranks_from <= count && count <= ranks_to && bytes_from <= situation.bytes && situation.bytes <= bytes_to &&
         (crowd == Crowd::any || (crowd == Crowd::oversubscribed) == situation.oversubscribed) &&
         (!by_domains || !situation.domains.empty());
}

bool TuningTable::Row::serves(const Situation& situation) const {
  return covers(situation) && !staged && fits(choice, situation);
}

bool TuningTable::Row::decides(const Situation& situation) const {
  return staged ? covers(situation) : serves(situation);
}

const TuningTable& TuningTable::builtin() {
  static const TuningTable table = parse(builtin_text, "tuning_table.inc");
  return table;
}

TuningTable::Crowd TuningTable::crowd_in(std::string_view word) {
  if (word == "oversubscribed") return Crowd::oversubscribed;
  if (word == "core-per-rank") return Crowd::core_per_rank;
  constexpr std::array<std::string_view, 2> known{"oversubscribed", "core-per-rank"};
  refuse("the words at the end can only be \"oversubscribed\" or \"core-per-rank\", and \"domains\", not " +
         quoted(word) + "." + did_you_mean(word, known));
}

TuningTable::Row TuningTable::parse_row(std::vector<std::string_view> words, int line) {
  const bool by_domains = words.size() > 5 && words.back() == "domains";
  if (by_domains) words.pop_back();
  if (words.size() < 5 || words.size() > 6)
    refuse(
        "expected \"collective transport ranks bytes algorithm\" and perhaps \"oversubscribed\" or \"core-per-rank\", "
        "found " +
        std::to_string(words.size()) + " words in " + quoted(joined(words)) + ".");
  const Collective collective = find_collective(words[0]);
  if (std::find(transports.begin(), transports.end(), words[1]) == transports.end())
    refuse("there is no transport " + quoted(words[1]) + "." + did_you_mean(words[1], transports) +
           " There are: shm, tcp, inproc, hosts, cuda_ipc, cuda_peers, cuda_leader, cuda_hosts, and * for all.");
  const Range ranks = range_in(words[2], "ranks"), bytes = range_in(words[3], "bytes");
  const bool staged = words[4] == staged_word;
  if (staged && (!words[1].starts_with("cuda_") || words[1] == "cuda_hosts"))
    refuse("\"staged\" is for the GPUs of one host (cuda_leader, cuda_peers, cuda_ipc), not for " + quoted(words[1]) +
           ": name an algorithm.");
  const Choice choice = staged ? Choice{} : find(collective, words[4]);
  const bool gives_radix = words[4].find(':') != std::string_view::npos;
  if (by_domains && (staged || gives_radix || !choice.entry->has_domains))
    refuse("domains need an algorithm that knows them, without a radix, such as hierarchical, not " + quoted(words[4]) +
           ".");
  return {.collective = collective,
          .transport = std::string{words[1]},
          .ranks_from = ranks.from,
          .ranks_to = ranks.to,
          .bytes_from = bytes.from,
          .bytes_to = bytes.to,
          .choice = choice,
          .gives_radix = gives_radix,
          .staged = staged,
          .crowd = words.size() == 6 ? crowd_in(words[5]) : Crowd::any,
          .by_domains = by_domains,
          .text = joined(words) + (by_domains ? " domains" : ""),
          .line = line};
}

TuningTable TuningTable::parse(std::string_view text, std::string_view file_name) {
  TuningTable table;
  table.file_name_ = file_name;
  table.rows_.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')));
  int line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view row = text.substr(begin, end - begin);
    begin = end + 1;
    ++line;
    row = row.substr(0, row.find('#'));
    const std::vector<std::string_view> words = words_of(row);
    if (words.empty()) continue;
    try {
      table.rows_.push_back(parse_row(words, line));
    } catch (const Error& error) {
      refuse(std::string{file_name} + ":" + std::to_string(line) + ": " + error.what());
    }
  }
  return table;
}

std::optional<Choice> TuningTable::find_line(const Situation& situation, std::string* why) const {
  for (const Row& row : rows_)
    if (row.serves(situation)) {
      Choice choice = row.choice;
      const bool is_of_hosts = row.transport == "hosts" || row.transport == "cuda_hosts";
      if (is_of_hosts && situation.ranks_on_each_host > 1 && choice.entry->has_radix && !row.gives_radix)
        choice.radix = situation.ranks_on_each_host;
      if (row.by_domains) choice.domains = situation.domains;
      if (why != nullptr)
        *why = told(situation) + ": " + to_string(choice) + ", by " + file_name_ + ":" + std::to_string(row.line) +
               ": " + row.text;
      return choice;
    }
  return std::nullopt;
}

bool TuningTable::has_lines_for_hosts(Collective collective) const {
  return std::ranges::any_of(rows_,
                             [&](const Row& row) { return row.collective == collective && row.transport == "hosts"; });
}

Choice TuningTable::select(const Situation& situation, std::string* why) const {
  const bool is_own = this != &builtin();
  const bool may_take_tcp = is_own && situation.transport == "hosts";
  if (!may_take_tcp || has_lines_for_hosts(situation.collective))
    if (const std::optional<Choice> choice = find_line(situation, why)) return *choice;
  if (may_take_tcp) {
    // Somebody has measured those, here.
    Situation over_tcp = situation;
    over_tcp.transport = "tcp";
    if (const std::optional<Choice> choice = find_line(over_tcp, why)) return *choice;
  }
  if (is_own) {
    const Choice choice = builtin().select(situation, why);
    if (why != nullptr) *why += "; no line of " + file_name_ + " matches this call";
    return choice;
  }
  Choice choice;
  for (const Entry& entry : catalogue(situation.collective))
    if (choice.entry == nullptr && fits({&entry}, situation)) choice.entry = &entry;
  if (why != nullptr)
    *why = told(situation) + ": " + to_string(choice) + ", the first in the catalogue that fits; no line of " +
           file_name_ + " does.";
  return choice;
}

bool TuningTable::stages(const Situation& situation) const {
  for (const Row& row : rows_)
    if (row.decides(situation)) return row.staged;
  return this != &builtin() && builtin().stages(situation);
}

std::vector<TuningTable::Line> TuningTable::lines() const {
  std::vector<Line> lines;
  lines.reserve(rows_.size());
  for (const Row& row : rows_) lines.push_back({row.line, row.text});
  return lines;
}

std::set<int> TuningTable::deciding(Situation situation) const {
  std::set<std::size_t> starts;  // only there another line may begin to decide
  for (const Row& row : rows_) {
    starts.insert(row.bytes_from);
    if (row.bytes_to != no_end) starts.insert(row.bytes_to + 1);
  }
  std::set<int> found;
  for (const std::size_t bytes : starts) {
    situation.bytes = bytes;
    const auto row = std::ranges::find_if(rows_, [&](const Row& one) { return one.decides(situation); });
    if (row != rows_.end()) found.insert(row->line);
  }
  return found;
}

}  // namespace tutti::algorithms
