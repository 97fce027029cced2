#include "lib/base/suggest.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tutti {
namespace {

/// Letters to insert, remove, replace, or swap with their neighbour (optimal string alignment), row by row.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::size_t letters_of(std::string_view word) {
  return word.size() - std::min(word.size(), word.find_first_not_of('-'));
}

/// Wrong letters are allowed in a third of the differing part: after a long common beginning, three wrong letters make
/// another word.
std::size_t edits_allowed(std::string_view word, std::string_view candidate) {
  const auto begin = std::mismatch(word.begin(), word.end(), candidate.begin(), candidate.end()).first;
  const auto differing = static_cast<std::size_t>(word.end() - begin);
  return std::min(std::max<std::size_t>(1, differing / 3), letters_of(word) / 2);
}

/// The only candidate that begins with `word`.
std::string_view begun_by(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t fewest_letters = 3;
  if (letters_of(word) < fewest_letters) return {};
  const auto begins = [&](std::string_view candidate) { return candidate.starts_with(word); };
  const auto found = std::find_if(candidates.begin(), candidates.end(), begins);
  if (found == candidates.end() || std::any_of(found + 1, candidates.end(), begins)) return {};
  return *found;
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::size_t fewest = word.size() + 1;
  std::string_view best;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edits(word, candidate);
    if (distance < fewest && distance <= edits_allowed(word, candidate)) {
      fewest = distance;
      best = candidate;
    }
  }
  return std::string{best.empty() ? begun_by(word, candidates) : best};
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string best = nearest(word, candidates);
  return best.empty() ? "" : " Did you mean \"" + best + "\"?";
}

}  // namespace tutti
