#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/run/process.h"

using namespace tutti::cli;

namespace {

pid_t child_that_exits_with(int code) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(code);
  return pid;
}

/// Until it has ended, without reaping it.
void await_end(pid_t pid) {
  siginfo_t info;
  REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);
}

}  // namespace

TEST_CASE("the end of a child is told once it has come") {
  const pid_t pid = child_that_exits_with(3);
  await_end(pid);
  const auto status = status_if_ended(pid);
  REQUIRE(status);
  CHECK(WIFEXITED(*status));
  CHECK(WEXITSTATUS(*status) == 3);
}

TEST_CASE("a child that runs has not ended") {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  CHECK_FALSE(status_if_ended(pid));
  ::kill(pid, SIGKILL);
  await_end(pid);
  const auto status = status_if_ended(pid);
  REQUIRE(status);
  CHECK(WIFSIGNALED(*status));
}

TEST_CASE("a child that somebody else has reaped has ended, and not well") {
  const pid_t pid = child_that_exits_with(0);
  REQUIRE(::waitpid(pid, nullptr, 0) == pid);
  const auto status = status_if_ended(pid);
  REQUIRE(status);
  CHECK(WIFEXITED(*status));
  CHECK(WEXITSTATUS(*status) == 1);
}
