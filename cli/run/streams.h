#pragma once

#include <poll.h>

#include <array>
#include <string>

#include "cli/run/output.h"

namespace tutti::cli {

/// Standard output and standard error of the runner. Where both are one file, such as a terminal, one outlet writes to
/// it: what they say keeps its order, and neither breaks into a line of the other.
class Streams {
 public:
  Streams();

  Outlet& out() { return out_; }
  Outlet& err() { return one_file_ ? out_ : err_; }
  /// A line of our own.
  void say(const std::string& text) { err().put(this, "tutti: " + text + "\n"); }

  /// What to wait for, and what to do when poll() has filled it in.
  std::array<pollfd, 2> waits() const;
  void flush(const pollfd& out, const pollfd& err);
  bool empty() const { return out_.empty() && err_.empty(); }

  /// The errno with which standard output failed, or 0. That it was closed when we started is no failure: whoever
  /// closes it wants none.
  int out_error() const;
  /// Something for standard error is lost, though somebody would read it.
  bool lost_errors() const;

 private:
  bool one_file_;
  Outlet out_;
  Outlet err_;
};

}  // namespace tutti::cli
