#include "cli/base/sizes.h"

#include <cmath>
#include <cstdlib>
#include <string_view>

namespace tutti::cli {

std::optional<std::size_t> parse_bytes(const std::string& text) {
  char* unit = nullptr;
  const double number = std::strtod(text.c_str(), &unit);
  std::string_view rest{unit};
  if (rest.ends_with("B")) rest.remove_suffix(rest.ends_with("iB") && rest.size() == 3 ? 2 : 1);
  int shift = 0;
  if (rest == "K" || rest == "k") shift = 10;
  if (rest == "M" || rest == "m") shift = 20;
  if (rest == "G" || rest == "g") shift = 30;
  const bool known_unit = rest.empty() || shift != 0;
  if (unit == text.c_str() || !known_unit || !(number >= 0) || std::ldexp(number, shift) > 0x1p46) return {};
  return static_cast<std::size_t>(std::ldexp(number, shift));
}

}  // namespace tutti::cli
