#include "rendezvous/slurm.h"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>

#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

constexpr std::size_t most_hosts = 65'536;

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// Removes the text up to the first `separator` outside of brackets from `list` and returns it.
std::string_view take_word(std::string_view& list, char separator) {
  std::size_t end = 0;
  for (int depth = 0; end < list.size() && (depth > 0 || list[end] != separator); ++end)
    depth += list[end] == '[' ? 1 : list[end] == ']' ? -1 : 0;
  const std::string_view word = list.substr(0, end);
  list.remove_prefix(end < list.size() ? end + 1 : end);
  return word;
}

class Expansion {
 public:
  explicit Expansion(std::string_view list) : list_(list) {}

  std::vector<std::string> run() {
    for (std::string_view rest = list_; !rest.empty();) expand("", take_word(rest, ','));
    if (hosts_.empty()) throw malformed();
    return std::move(hosts_);
  }

 private:
  Error malformed() const {
    return {
        ErrorCode::invalid_argument,
        fmt::format("Slurm's list of hosts \"{}\" cannot be understood; expected something like n[0-3,07],m1.", list_)};
  }

  /// Replaces the first bracket of `pattern` by each of its numbers, and the rest likewise.
  void expand(const std::string& done, std::string_view pattern) {
    const std::size_t open = pattern.find('[');
    if (open == std::string_view::npos) {
      if (pattern.find(']') != std::string_view::npos || done.size() + pattern.size() == 0) throw malformed();
      if (hosts_.size() == most_hosts) throw malformed();
      hosts_.push_back(done + std::string{pattern});
      return;
    }
    const std::size_t close = pattern.find(']', open);
    if (close == std::string_view::npos || close == open + 1) throw malformed();
    const std::string head = done + std::string{pattern.substr(0, open)};
    for (std::string_view ranges = pattern.substr(open + 1, close - open - 1); !ranges.empty();)
      expand_range(head, take_word(ranges, ','), pattern.substr(close + 1));
  }

  void expand_range(const std::string& head, std::string_view range, std::string_view tail) {
    const std::size_t dash = range.find('-');
    const std::string_view first_text = range.substr(0, dash);
    const auto first = number(first_text);
    const auto last = dash == std::string_view::npos ? first : number(range.substr(dash + 1));
    if (!first || !last || *last < *first) throw malformed();
    // Leading zeros of the first number set the width of all.
    for (int i = *first; i <= *last; ++i) expand(head + fmt::format("{:0{}}", i, first_text.size()), tail);
  }

  std::string_view list_;
  std::vector<std::string> hosts_;
};

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view list) { return Expansion{list}.run(); }

std::optional<int> tasks_on_node(std::string_view tasks_per_node, int node) {
  int next = 0;
  for (std::string_view rest = tasks_per_node; !rest.empty();) {
    const std::string_view word = take_word(rest, ',');
    const std::size_t open = word.find("(x");
    const auto tasks = number(word.substr(0, open));
    std::optional<int> nodes = 1;
    if (open != std::string_view::npos)
      nodes = word.ends_with(')') ? number(word.substr(open + 2, word.size() - open - 3)) : std::nullopt;
    if (!tasks || !nodes) return std::nullopt;
    if (node - next < *nodes) return tasks;
    next += *nodes;
  }
  return std::nullopt;
}

}  // namespace tutti::rendezvous
