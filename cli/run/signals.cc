#include "cli/run/signals.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "tutti/error.h"

namespace tutti::cli {
namespace {

bool ignored(int number) {
  struct sigaction action;
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Signals::Signals() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int number : {SIGCHLD, SIGCONT, SIGUSR1, SIGUSR2}) ::sigaddset(&wanted, number);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) {
    if (!ignored(number)) ::sigaddset(&wanted, number);  // as nohup and background jobs of shells intend
  }
  ::pthread_sigmask(SIG_BLOCK, &wanted, &before_);
  fd_ = Descriptor{::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!fd_) throw Error(ErrorCode::system, std::string{"cannot wait for signals: "} + ::strerror(errno));
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe_before_);
}

Signals::~Signals() { give_back(); }

void Signals::give_back() {
  if (std::exchange(given_back_, true)) return;
  while (next()) continue;
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> Signals::next() {
  signalfd_siginfo info;
  if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

std::string signal_name(int number) {
  const char* const short_name = ::sigabbrev_np(number);
  return short_name != nullptr ? std::string{"SIG"} + short_name : "signal " + std::to_string(number);
}

}  // namespace tutti::cli
