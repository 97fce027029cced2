#include "cli/base/stop_request.h"

#include <initializer_list>

#include "cli/base/inherited_signals.h"

namespace tutti::cli {

volatile std::sig_atomic_t told_to_stop = 0;

namespace {

void note_signal(int number) { told_to_stop = number; }

void handle_with(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // poll() ends anyway; waiting for a child must not
  ::sigaction(SIGTERM, &action, nullptr);
  for (const int number : {SIGINT, SIGHUP})
    if (!inherited_signals().ignores(number)) ::sigaction(number, &action, nullptr);
}

}  // namespace

void listen_for_stop() { handle_with(note_signal); }
void stop_listening() { handle_with(SIG_DFL); }

}  // namespace tutti::cli
