#include "cli/base/text.h"

#include <fmt/core.h>

namespace tutti::cli {

std::string wrapped(const std::string& text, std::size_t hang) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('\n', at);
    const bool ends = end != std::string::npos;
    if (!ends) end = text.size();
    std::string line = text.substr(at, end - at);
    while (line.size() > line_width) {
      std::size_t space = line.rfind(' ', line_width);
      if (space == std::string::npos || space <= line.find_first_not_of(' ')) space = line.find(' ', line_width);
      if (space == std::string::npos) break;
      result += line.substr(0, line.find_last_not_of(' ', space) + 1) + "\n";
      line = std::string(hang, ' ') + line.substr(space + 1);
    }
    result += line;
    if (ends) result += "\n";
    at = end + 1;
  }
  return result;
}

std::string plural(std::size_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string size_text(double bytes) {
  for (const char* unit : {"B", "KiB", "MiB", "GiB"}) {
    if (bytes < 1024 || std::string{unit} == "GiB") return fmt::format("{:.4g} {}", bytes, unit);
    bytes /= 1024;
  }
  return {};
}

std::string time_text(algorithms::Ticks picoseconds) {
  if (picoseconds == 0) return "0";
  double time = static_cast<double>(picoseconds) / 1000;
  for (const char* unit : {"ns", "us", "ms", "s"}) {
    if (time < 1000 || std::string{unit} == "s") return fmt::format("{:.3g} {}", time, unit);
    time /= 1000;
  }
  return {};
}

std::string compress(const std::vector<int>& ascending) {
  std::string text;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ascending[i]);
    if (last > i) text += fmt::format("-{}", ascending[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace tutti::cli
