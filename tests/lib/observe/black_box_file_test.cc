// Black boxes in files (TUTTI_BLACK_BOX), and boxes that cannot be.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/system_calls.h"
#include "lib/observe/black_box_reader.h"
#include "tests/lib/observe/boxed.h"
#include "tests/support/scratch.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using black_box::Box;
using black_box::CallRecord;
using black_box::Snapshot;

TEST_CASE("a box in a file stays when its rank has gone") {
  const Folder folder;
  {
    const Setting setting{"TUTTI_BLACK_BOX", folder.name + "/box-%r"};
    std::string trouble;
    const auto box = Box::open(owner, trouble);
    CallRecord call = call_number(4);
    box->begin(call).land(nullptr);
  }
  const Descriptor file(::open((folder.name + "/box-2").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(file);
  const Snapshot seen = black_box::read(file, "box-2");
  REQUIRE(seen.entries.size() == 1);
  CHECK(seen.entries[0].call.operation == 4);
}

TEST_CASE("it is known that the process of a box has gone, or was of another host") {
  const Folder folder;
  const Setting setting{"TUTTI_BLACK_BOX", folder.name + "/%r"};
  const auto seen = [&] {
    const Descriptor file(::open((folder.name + "/2").c_str(), O_RDONLY | O_CLOEXEC));
    return black_box::read(file, "2");
  };
  std::string trouble;
  auto box = Box::open(owner, trouble);
  Snapshot living = seen();
  CHECK_FALSE(black_box::has_gone(living));
  living.scope = "another kernel/" + living.scope.substr(living.scope.find('/') + 1);
  CHECK(black_box::has_gone(living));
  living.scope = "";
  CHECK_FALSE(black_box::has_gone(living));
  box.reset();
  const pid_t rank = ::fork();
  if (rank == 0) {
    box = Box::open(owner, trouble);
    ::_exit(0);
  }
  siginfo_t ended{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(rank), &ended, WEXITED | WNOWAIT) == 0);
  REQUIRE(seen().pid == rank);
  CHECK(black_box::has_gone(seen()));  // though nobody has asked for its exit code
  int status = 0;
  REQUIRE(::waitpid(rank, &status, 0) == rank);
  CHECK(black_box::has_gone(seen()));
}

TEST_CASE("a second box in the file of a living one takes nothing from that") {
  const Folder folder;
  const Setting setting{"TUTTI_BLACK_BOX", folder.name + "/%r"};
  std::string trouble;
  const auto first = Box::open(owner, trouble);
  const Descriptor file_of_first(::open((folder.name + "/2").c_str(), O_RDONLY | O_CLOEXEC));
  const auto second = Box::open(owner, trouble);
  const Descriptor file_of_second(::open((folder.name + "/2").c_str(), O_RDONLY | O_CLOEXEC));
  for (const std::uint64_t number : {1U, 2U}) {
    CallRecord call = call_number(number);
    first->begin(call).land(nullptr);
  }
  CallRecord call = call_number(3);
  second->begin(call).land(nullptr);
  CHECK(black_box::read(file_of_first, "first").entries.size() == 2);
  CHECK(black_box::read(file_of_second, "second").entries.size() == 1);
}

TEST_CASE("a box replaces nothing but a file") {
  const Folder folder;
  REQUIRE(::mkdir((folder.name + "/2").c_str(), 0700) == 0);
  REQUIRE(::symlink("elsewhere", (folder.name + "/3").c_str()) == 0);
  const Setting setting{"TUTTI_BLACK_BOX", folder.name + "/%r"};
  for (const int rank : {2, 3}) {
    const Box::Owner its{rank, 4, "n07", "job/1"};
    std::string trouble;
    CHECK(error_of([&] { Box::open(its, trouble); }).find("cannot make it: File exists. Name a file") !=
          std::string::npos);
  }
}

TEST_CASE("a file that cannot be is an error with the remedy; memory that cannot be is none") {
  const auto complaint = [](const std::string& value) {
    const Setting setting{"TUTTI_BLACK_BOX", value};
    std::string trouble;
    return error_of([&] { Box::open(owner, trouble); });
  };
  CHECK(complaint("/no-such-folder/%r").find("cannot make it: No such file or directory. Name a file") !=
        std::string::npos);
  CHECK(complaint("/tmp/one-for-all")
            .find("several ranks, which need a file each, accepted: a path with %r, the rank | off") !=
        std::string::npos);
  const Folder folder;
  system_calls::refuse(SystemCall::fallocate, ENOSPC, 0);
  CHECK(complaint(folder.name + "/%r").find("cannot fill it: No space left on device") != std::string::npos);
  system_calls::refuse_none();

  for (const SystemCall call : {SystemCall::memfd, SystemCall::fallocate, SystemCall::mmap}) {
    system_calls::refuse(call, ENOMEM, 0);
    std::string trouble;
    CHECK(Box::open(owner, trouble) == nullptr);
    CHECK(trouble.find("Cannot allocate memory") != std::string::npos);
    system_calls::refuse_none();
  }
  for (const char* word : {"off", "OFF"}) {
    const Setting off{"TUTTI_BLACK_BOX", word};
    std::string trouble;
    CHECK(Box::open(owner, trouble) == nullptr);
    CHECK(trouble.empty());
  }
}

}  // namespace
}  // namespace tutti::testing
