#include "cli/base/inherited_signals.h"

namespace tutti::cli {
namespace {

/// Signals whose default action is restored.
constexpr int relied_on[] = {SIGCHLD, SIGPIPE, SIGALRM, SIGTERM};

InheritedSignals inherited;  // static, so zero: two empty sets

}  // namespace

void InheritedSignals::restore() const {
  for (const int number : relied_on) ::signal(number, ignores(number) ? SIG_IGN : SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
}

void settle_signals() {
  ::sigemptyset(&inherited.ignored);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action;
    const bool ignored = ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
    if (ignored) ::sigaddset(&inherited.ignored, number);
  }
  for (const int number : relied_on) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, &inherited.blocked);
}

const InheritedSignals& inherited_signals() { return inherited; }

}  // namespace tutti::cli
