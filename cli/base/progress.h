#pragma once

#include <cstdio>
#include <string>

namespace tutti::cli {

/// Overwrites the last line of progress on `to`; an empty text removes it.
void write_over(std::FILE* to, const std::string& text);

/// A line on standard error that overwrites itself if that is a terminal, and otherwise prints nothing. The destructor
/// removes it.
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
