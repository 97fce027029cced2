#pragma once

#include <poll.h>

#include <array>
#include <string>

#include "cli/run/output.h"

namespace tutti::cli {

/// Standard output and standard error of the runner. If both are one file, such as a terminal, one outlet writes to it,
/// so that the order of lines is kept and lines do not mix.
class Streams {
 public:
  Streams();

  Outlet& out() { return out_; }
  Outlet& err() { return one_file_ ? out_ : err_; }
  /// A line of the runner itself.
  void say(const std::string& text) { err().put(this, "tutti: " + text + "\n"); }

  /// What to poll for, and the actions afterwards.
  std::array<pollfd, 2> waits() const;
  void flush(const pollfd& out, const pollfd& err);
  bool empty() const { return out_.empty() && err_.empty(); }

  /// The errno with which standard output failed, or 0. It is no failure if it was closed from the start, since the
  /// caller then wants no output.
  int out_error() const;
  /// Some text for standard error was lost, and it had been open.
  bool lost_errors() const;

 private:
  bool one_file_;
  Outlet out_;
  Outlet err_;
};

}  // namespace tutti::cli
