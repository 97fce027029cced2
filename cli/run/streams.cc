#include "cli/run/streams.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tutti::cli {
namespace {

bool are_one_file(int a, int b) {
  struct stat first, second;
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

Streams::Streams() : one_file_(are_one_file(STDOUT_FILENO, STDERR_FILENO)), out_(STDOUT_FILENO), err_(STDERR_FILENO) {}

std::array<pollfd, 2> Streams::waits() const {
  return {pollfd{out_.empty() ? -1 : out_.fd(), POLLOUT, 0}, pollfd{err_.empty() ? -1 : err_.fd(), POLLOUT, 0}};
}

void Streams::flush(const pollfd& out, const pollfd& err) {
  if (out.revents != 0) out_.flush();
  if (err.revents != 0) err_.flush();
}

int Streams::out_error() const { return out_.error() == EBADF ? 0 : out_.error(); }

bool Streams::lost_errors() const { return err_.error() != 0 && err_.error() != EBADF && err_.error() != EPIPE; }

}  // namespace tutti::cli
