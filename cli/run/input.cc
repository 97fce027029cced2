#include "cli/run/input.h"

#include <errno.h>
#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <array>

namespace tutti::cli {
namespace {

bool echoes() {
  termios terminal;
  return ::tcgetattr(STDIN_FILENO, &terminal) == 0 && (terminal.c_lflag & (ECHO | ECHONL)) != 0;
}

}  // namespace

Keyboard::Keyboard(bool wanted) {
  int ends[2];
  if (!wanted || ::isatty(STDIN_FILENO) == 0 || ::pipe2(ends, O_CLOEXEC) != 0) return;
  rank_end_ = Descriptor{ends[0]};
  our_end_ = Descriptor{ends[1]};
  ::fcntl(our_end_.get(), F_SETFL, O_NONBLOCK);
  look_again();
}

void Keyboard::look_again() { foreground_ = ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

pollfd Keyboard::wait() const {
  if (!our_end_) return {-1, 0, 0};
  if (!typed_.empty()) return {our_end_.get(), POLLOUT, 0};
  return {foreground_ ? STDIN_FILENO : -1, POLLIN, 0};
}

bool Keyboard::forward() {
  bool new_line = false;
  if (typed_.empty()) {
    look_again();
    if (!foreground_) return false;  // a read in the background would stop this process
    std::array<char, 4096> bytes;
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got > 0) typed_.assign(bytes.data(), static_cast<std::size_t>(got));
    new_line = typed_.ends_with('\n') && echoes();
    if (got == 0 || (got < 0 && errno != EINTR)) our_end_.reset();  // end of input, also for the rank
  }
  if (typed_.empty() || !our_end_) return new_line;
  const ssize_t wrote = ::write(our_end_.get(), typed_.data(), typed_.size());
  if (wrote > 0) typed_.erase(0, static_cast<std::size_t>(wrote));
  if (wrote < 0 && errno != EAGAIN) our_end_.reset();  // rank 0 has closed its standard input
  return new_line;
}

}  // namespace tutti::cli
