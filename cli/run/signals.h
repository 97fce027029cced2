#pragma once

#include <signal.h>

#include <optional>
#include <string>

#include "lib/base/descriptor.h"

namespace tutti::cli {

/// Turns the signals a runner cares about into something poll() can wait for, while it lives. Make it before any other
/// thread starts, so that none of them takes a signal.
class Signals {
 public:
  Signals();
  ~Signals();

  int fd() const { return fd_.get(); }
  /// The next signal that came, if any.
  std::optional<int> next();
  /// Lets signals do what they did before, now; an object without effect stays.
  void give_back();

 private:
  Descriptor fd_;
  sigset_t before_;
  struct sigaction pipe_before_;
  bool given_back_ = false;
};

/// "SIGKILL", "signal 35".
std::string signal_name(int number);

}  // namespace tutti::cli
