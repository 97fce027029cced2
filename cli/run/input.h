#pragma once

#include <poll.h>

#include <string>

#include "lib/base/descriptor.h"

namespace tutti::cli {

/// Standard input for rank 0. A file or a pipe is inherited. A terminal is read here and passed on through a pipe,
/// since ranks run in process groups of their own, which a terminal would stop when they read.
class Keyboard {
 public:
  /// `wanted` false: rank 0 is not on this node, and the terminal is not used.
  explicit Keyboard(bool wanted);

  /// The descriptor 0 of rank 0.
  int end_for_rank() const { return rank_end_ ? rank_end_.get() : 0; }
  /// The ranks have been started and own their end of the pipe.
  void started() { rank_end_.reset(); }

  /// The descriptor to poll; its fd is -1 if there is none.
  pollfd wait() const;
  /// True if the terminal has echoed Enter, and so begun a new line.
  bool forward();
  /// After SIGCONT: this process may have moved to the foreground or the background.
  void look_again();

 private:
  Descriptor rank_end_;
  Descriptor our_end_;
  std::string typed_;
  bool foreground_ = false;
};

}  // namespace tutti::cli
