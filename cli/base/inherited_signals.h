#pragma once

#include <signal.h>

namespace tutti::cli {

/// The signals that the parent process ignored or blocked; fork and exec preserve both.
struct InheritedSignals {
  sigset_t ignored;
  sigset_t blocked;

  bool ignores(int number) const { return ::sigismember(&ignored, number) == 1; }
  /// For a child before exec: restores what this process inherited. System calls only.
  void restore() const;
};

/// Call it first in main(). Records what was inherited, and then makes this process independent of it: no signal is
/// blocked, and the signals that it relies on have their default actions. If SIGCHLD were ignored, the kernel would
/// discard the exit codes of children; if SIGPIPE were, a reader that closes its pipe would not end this process; if
/// SIGALRM were, time limits would have no effect; and SIGTERM must always end it. SIGHUP and SIGINT stay ignored, as
/// nohup and background jobs of shells intend.
void settle_signals();

/// The signals that settle_signals() found; none before it was called.
const InheritedSignals& inherited_signals();

}  // namespace tutti::cli
