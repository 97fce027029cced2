// Greedy: at each place takes the longest repetition among the latest candidates that begin with the same letters.

#include "cli/base/pack.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_map>

#include "tutti/error.h"

namespace tutti::cli {
namespace {

constexpr std::size_t shortest = 5;
constexpr std::size_t marks = sizeof(repeat_marks) - 1;
constexpr std::size_t longest_short = shortest + marks - 2;  // encoded by the mark alone
constexpr std::size_t longest = longest_short + 1 + 64 * 64 - 1;
constexpr std::size_t farthest = 64 * 64 * 64;
constexpr int most_candidates = 64;
constexpr std::size_t nowhere = ~std::size_t{0};

char letter(std::size_t value) { return letter_alphabet[value & 63]; }

struct Repeat {
  std::size_t from = 0;
  std::size_t length = 0;
};

/// The places at which each sequence of `shortest` letters occurred.
class Past {
 public:
  explicit Past(std::string_view text) : text_(text), before_(text.size(), nowhere) {}

  void add(std::size_t at) {
    if (at + shortest > text_.size()) return;
    const auto [known, is_new] = latest_.emplace(text_.substr(at, shortest), at);
    if (is_new) return;
    before_[at] = known->second;
    known->second = at;
  }

  Repeat longest_at(std::size_t at) const {
    Repeat best;
    if (at + shortest > text_.size()) return best;
    const auto known = latest_.find(text_.substr(at, shortest));
    std::size_t from = known == latest_.end() ? nowhere : known->second;
    for (int i = 0; i < most_candidates && from != nowhere && at - from <= farthest; ++i, from = before_[from]) {
      std::size_t length = shortest;
      while (length < longest && at + length < text_.size() && text_[from + length] == text_[at + length]) ++length;
      if (length > best.length) best = {from, length};
    }
    return best;
  }

 private:
  std::string_view text_;
  std::unordered_map<std::string_view, std::size_t> latest_;
  std::vector<std::size_t> before_;
};

void write(const Repeat& repeat, std::size_t at, std::string& result) {
  if (repeat.length <= longest_short) {
    result += repeat_marks[repeat.length - shortest];
  } else {
    const std::size_t more = repeat.length - longest_short - 1;
    result += {repeat_marks[marks - 1], letter(more >> 6), letter(more)};
  }
  const std::size_t back = at - repeat.from - 1;
  result += {letter(back >> 12), letter(back >> 6), letter(back)};
}

}  // namespace

std::string letters(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (const std::uint32_t number : numbers) {
    if (number < 48) {
      text += letter(number);
    } else if (number < 1008) {
      text += {letter_alphabet[48 + (number - 48) / 64], letter(number - 48)};
    } else if (number < 1U << 24) {
      text += {letter(63), letter(number >> 18), letter(number >> 12), letter(number >> 6), letter(number)};
    } else {
      throw Error(ErrorCode::invalid_argument, "plan: too large for a page; choose a smaller pipeline");
    }
  }
  return text;
}

std::string squeezed(const std::string& text) {
  std::string result;
  Past past(text);
  for (std::size_t at = 0; at < text.size();) {
    const Repeat repeat = past.longest_at(at);
    const std::size_t step = std::max<std::size_t>(repeat.length, 1);
    if (repeat.length == 0)
      result += text[at];
    else
      write(repeat, at, result);
    for (std::size_t i = at; i < at + step; ++i) past.add(i);
    at += step;
  }
  return result;
}

}  // namespace tutti::cli
