#pragma once

#include <cstdio>
#include <string>

namespace tutti::cli {

/// Writes over the last line of progress on `to`; an empty text takes it away.
void write_over(std::FILE* to, const std::string& text);

/// A line on standard error that writes over itself, where a terminal shows it; nothing elsewhere. Gone at the end.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(const std::string& text) const;

 private:
  bool shown_;
};

}  // namespace tutti::cli
