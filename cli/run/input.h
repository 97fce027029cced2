#pragma once

#include <poll.h>

#include <string>

#include "lib/base/descriptor.h"

namespace tutti::cli {

/// Standard input for rank 0. A file or a pipe is simply inherited. A terminal is read here and passed on through a
/// pipe, because ranks run in process groups of their own, which a terminal would stop for reading.
class Keyboard {
 public:
  /// `wanted` false: rank 0 is not on this node, and the terminal is left alone.
  explicit Keyboard(bool wanted);

  /// What becomes descriptor 0 of rank 0.
  int end_for_rank() const { return rank_end_ ? rank_end_.get() : 0; }
  /// The ranks are started: the rank's end is theirs now.
  void started() { rank_end_.reset(); }

  /// What to wait for next; its fd is -1 where there is nothing.
  pollfd wait() const;
  /// True when the terminal has echoed Enter, and so begun a new line.
  bool forward();
  /// After SIGCONT: we may have come to the foreground or left it.
  void look_again();

 private:
  Descriptor rank_end_;
  Descriptor our_end_;
  std::string typed_;
  bool foreground_ = false;
};

}  // namespace tutti::cli
