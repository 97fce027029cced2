#include "tools/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

namespace tutti::tools {

Progress::Progress() : shown_(::isatty(STDERR_FILENO) != 0) {}
Progress::~Progress() { show(""); }

void Progress::show(const std::string& text) const {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K{}", text);
  std::fflush(stderr);
}

}  // namespace tutti::tools
