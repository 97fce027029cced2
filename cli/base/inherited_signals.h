#pragma once

#include <signal.h>

namespace tutti::cli {

/// Which signals the process that started this one ignores, and which it blocks: fork and exec keep both.
struct InheritedSignals {
  sigset_t ignored;
  sigset_t blocked;

  bool ignores(int number) const { return ::sigismember(&ignored, number) == 1; }
  /// For a child before exec: the program finds what it would find without us. System calls only.
  void restore() const;
};

/// Call it first in main(). Remembers what was inherited, and then makes this process independent of it: nothing is
/// blocked, and the signals that it relies on do what they do by default. With SIGCHLD ignored the kernel would throw
/// away how children ended; with SIGPIPE ignored a reader that leaves would not end us; with SIGALRM ignored no
/// time limit would; and SIGTERM must always end us. SIGHUP and SIGINT stay ignored: nohup and shells' background jobs
/// mean it.
void settle_signals();

/// What settle_signals() found; nothing ignored and nothing blocked before it was called.
const InheritedSignals& inherited_signals();

}  // namespace tutti::cli
