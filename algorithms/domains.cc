#include "algorithms/domains.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>

namespace tutti::algorithms {
namespace {

constexpr int most_ranks_of_domains = 1 << 16;

/// The number; -1 if the text is none.
int number_in(std::string_view text) {
  int value = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc{} && end == text.data() + text.size() && value >= 0 && value < most_ranks_of_domains
             ? value
             : -1;
}

/// Takes the text up to the next `mark` from the beginning of `rest`.
std::string_view take(std::string_view& rest, char mark) {
  const std::string_view item = rest.substr(0, rest.find(mark));
  rest.remove_prefix(std::min(rest.size(), item.size() + 1));
  return item;
}

/// "0-3.8": puts those ranks into the domain. False: it has another form, or a rank is in one already.
bool put_ranks(std::string_view text, int domain, std::vector<int>& domains) {
  if (text.empty() || text.back() == '.') return false;
  while (!text.empty()) {
    const std::string_view range = take(text, '.');
    const std::size_t dash = range.find('-');
    const int first = number_in(range.substr(0, dash));
    const int last = dash == std::string_view::npos ? first : number_in(range.substr(dash + 1));
    if (first < 0 || last < first) return false;
    domains.resize(std::max(domains.size(), static_cast<std::size_t>(last) + 1), -1);
    for (int rank = first; rank <= last; ++rank)
      if (std::exchange(domains[static_cast<std::size_t>(rank)], domain) != -1) return false;
  }
  return true;
}

/// Numbers the domains by their first ranks.
void renumber(std::vector<int>& domains) {
  std::vector<int> order;
  for (int& domain : domains) {
    const auto found = std::find(order.begin(), order.end(), domain);
    const auto number = static_cast<int>(found - order.begin());
    if (found == order.end()) order.push_back(domain);
    domain = number;
  }
}

std::string ranks_text(std::span<const int> domains, int domain) {
  std::string text;
  for (std::size_t rank = 0; rank < domains.size(); ++rank) {
    if (domains[rank] != domain) continue;
    std::size_t last = rank;
    while (last + 1 < domains.size() && domains[last + 1] == domain) ++last;
    text += (text.empty() ? "" : ".") + std::to_string(rank);
    if (last > rank) text += "-" + std::to_string(last);
    rank = last;
  }
  return text;
}

}  // namespace

std::string domains_text(std::span<const int> domains) {
  const bool neighbours = std::is_sorted(domains.begin(), domains.end());
  const int count = domains.empty() ? 0 : *std::max_element(domains.begin(), domains.end()) + 1;
  std::string text;
  for (int domain = 0; domain < count; ++domain) {
    if (domain > 0) text += '+';
    text +=
        neighbours ? std::to_string(std::count(domains.begin(), domains.end(), domain)) : ranks_text(domains, domain);
  }
  return text;
}

std::vector<int> domains_in(std::string_view text) {
  const bool by_ranks = text.find_first_of(".-") != std::string_view::npos;
  std::vector<int> domains;
  if (text.empty() || text.back() == '+') return {};
  for (int domain = 0; !text.empty(); ++domain) {
    const std::string_view item = take(text, '+');
    if (by_ranks) {
      if (!put_ranks(item, domain, domains)) return {};
      continue;
    }
    const int size = number_in(item);
    if (size < 1 || domains.size() + static_cast<std::size_t>(size) > most_ranks_of_domains) return {};
    domains.insert(domains.end(), static_cast<std::size_t>(size), domain);
  }
  if (std::find(domains.begin(), domains.end(), -1) != domains.end()) return {};
  renumber(domains);
  return domains;
}

}  // namespace tutti::algorithms
