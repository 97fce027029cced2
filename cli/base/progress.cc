#include "cli/base/progress.h"

#include <fmt/core.h>
#include <unistd.h>

namespace tutti::cli {

void write_over(std::FILE* to, const std::string& text) {
  std::fputs(fmt::format("\r\033[K{}", text).c_str(), to);
  std::fflush(to);
}

Progress::Progress() : shown_(::isatty(STDERR_FILENO) != 0) {}
Progress::~Progress() { show(""); }

void Progress::show(const std::string& text) const {
  if (shown_) write_over(stderr, text);
}

}  // namespace tutti::cli
