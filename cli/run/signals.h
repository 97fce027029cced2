#pragma once

#include <signal.h>

#include <optional>
#include <string>

#include "lib/base/descriptor.h"

namespace tutti::cli {

/// While it lives, signals for the runner can be waited for with poll(). Create it before any other thread, so that no
/// thread handles a signal.
class Signals {
 public:
  Signals();
  ~Signals();

  int fd() const { return fd_.get(); }
  /// The next pending signal, if any.
  std::optional<int> next();
  /// Restores the actions of the signals now; the destructor then does nothing.
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
