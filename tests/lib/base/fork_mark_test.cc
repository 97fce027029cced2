#include "lib/base/fork_mark.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>

namespace tutti {
namespace {

/// What `look` says in a child of fork().
bool in_child(const std::function<bool()>& look) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(look() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace

TEST_CASE("a mark knows the process in which it was made from its children") {
  const ForkMark mine;
  CHECK(mine.is_here());
  CHECK(mine.process() == ::getpid());
  CHECK(in_child([&] { return !mine.is_here(); }));
  CHECK(in_child([&] {
    const ForkMark childs;
    return childs.is_here() && !mine.is_here() &&
           in_child([&] { return !childs.is_here() && !mine.is_here() && ForkMark{}.is_here(); });
  }));
  CHECK(mine.is_here());
  CHECK(ForkMark{}.is_here());
}

TEST_CASE("all threads of a process share its mark") {
  const ForkMark mine;
  bool here = false;
  std::thread{[&] { here = mine.is_here() && ForkMark{}.is_here(); }}.join();
  CHECK(here);
}

}  // namespace tutti
