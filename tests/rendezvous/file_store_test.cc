// What is special about the store in a file: who is in it, what a run leaves behind, and what earlier ones left.

#include "rendezvous/file_store.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "rendezvous/file_log.h"
#include "rendezvous/process.h"
#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using rendezvous::FileGuard;
using rendezvous::FileLog;
using rendezvous::open_file_store;
using rendezvous::Record;
using rendezvous::RecordKind;
using Keys = std::vector<std::string>;

std::string content(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream{path, std::ios::binary | std::ios::trunc} << bytes;
  ::chmod(path.c_str(), 0600);  // as the store makes it
}

/// Runs body in a process of its own, which ends without running destructors of what body keeps alive.
void in_killed_process(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
}

}  // namespace

TEST_CASE("the last to close the file removes it, whether or not all came") {
  const TempFolder folder;
  const std::string path = folder.file("store");
  {
    const auto first = file_store(path, 3);
    first->set("k", "v");
    {
      const auto second = file_store(path, 3);
      CHECK(second->get("k") == "v");
    }
    CHECK(std::filesystem::exists(path));
    CHECK((std::filesystem::status(path).permissions() & std::filesystem::perms::all) ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  }
  CHECK(folder.is_empty());
}

TEST_CASE("with 0 users the file stays, with what is in it") {
  const TempFolder folder;
  file_store(folder.file("store"), 0)->set("k", "v");
  CHECK(file_store(folder.file("store"), 0)->get("k") == "v");
}

TEST_CASE("a file of a killed run is an error at once that names the file, the process and the remedy") {
  const TempFolder folder;
  const std::string path = folder.file("store");
  in_killed_process([&] {
    static std::shared_ptr<Store> kept;
    kept = file_store(path, 2);
    kept->set("k", "old");
  });
  const auto begin = Clock::now();
  const Error error = error_of([&] { file_store(path, 2); });
  CHECK(Clock::now() - begin < 10s);
  CHECK(error.code() == ErrorCode::rendezvous);
  CHECK(contains(error.what(), "stale"));
  CHECK(contains(error.what(), "rm " + path));
  CHECK(contains(error.what(), "process "));
  CHECK(contains(content(path), "old"));  // refused, not touched
}

TEST_CASE("a full file is waited for, then it is an error that says who is there") {
  const TempFolder folder;
  const std::string path = folder.file("store");
  const auto first = file_store(path, 2);
  const auto second = file_store(path, 2);
  const auto begin = Clock::now();
  const Error error = error_of([&] { open_file_store(path, 2, 60ms); });
  CHECK(Clock::now() - begin >= 60ms);
  CHECK(contains(error.what(), "already has its 2 users"));
  CHECK(contains(error.what(), "process " + std::to_string(::getpid())));
  CHECK(contains(error.what(), "rm " + path));
}

TEST_CASE("a user that has read keeps its place when it leaves, so that no next one reads the same") {
  const TempFolder folder;
  const std::string path = folder.file("store");
  const auto first = file_store(path, 2);
  first->set("k", "v");
  CHECK(file_store(path, 2)->get("k") == "v");
  CHECK(contains(error_of([&] { open_file_store(path, 2, 60ms); }).what(), "already has its 2 users"));
}

TEST_CASE("a second rendezvous under one name begins when the first has ended, with nothing of it") {
  const TempFolder folder;
  const std::string path = folder.file("store");
  run_threads(4, [&](int) {
    for (int round = 0; round < 10; ++round) {
      const auto store = open_file_store(path, 4, patience);
      store->add("arrived", 1);
      while (store->get("arrived") != "4") std::this_thread::sleep_for(1ms);
      CHECK(store->key_count() == 1);
    }
  });
  CHECK(folder.is_empty());
}

TEST_CASE("users who were told different numbers of users do not meet") {
  const TempFolder folder;
  const auto first = file_store(folder.file("store"), 3);
  const Error error = error_of([&] { file_store(folder.file("store"), 4); });
  CHECK(contains(error.what(), "3 users, here for 4"));
}

TEST_CASE("a record half written by a process that died is ignored, and cut off by the next writer") {
  const TempFolder folder;
  const std::string path = folder.file("store");
  file_store(path, 0)->set("first", "1");
  const std::string good = content(path);
  file_store(path, 0)->set("second", std::string(50, '2'));
  const std::string longer = content(path);
  for (std::size_t size = good.size(); size < longer.size(); ++size) {
    CAPTURE(size);
    write(path, longer.substr(0, size));
    const auto store = file_store(path, 0);
    CHECK(store->key_count() == 1);
    store->set("third", "3");
    CHECK(file_store(path, 0)->multi_get(Keys{"first", "third"}) == Keys{"1", "3"});
    CHECK(file_store(path, 0)->key_count() == 2);
  }
}

TEST_CASE("a beginning half written by a process that died is written again") {
  const TempFolder folder;
  const std::string path = folder.file("store");
  for (const char* beginning : {"", "t", "tutti store"}) {
    write(path, beginning);
    file_store(path, 0)->set("k", "v");
    CHECK(file_store(path, 0)->get("k") == "v");
  }
}

TEST_CASE("a file that is something else, or damaged, is an error that names it, and is not touched") {
  const TempFolder folder;
  const std::string path = folder.file("store");
  file_store(path, 0)->set("key", "value");
  std::string damaged = content(path);
  damaged[damaged.size() - 2] ^= 1;
  std::string absurd = content(path);
  absurd[14] = '\xff';
  absurd[17] = '\x7f';
  for (const std::string& bytes : {std::string{"#!/bin/sh\n"}, damaged, absurd}) {
    write(path, bytes);
    const Error error = error_of([&] { file_store(path, 0)->set("k", "v"); });
    CHECK(error.code() == ErrorCode::rendezvous);
    CHECK(contains(error.what(), path));
    CHECK(content(path) == bytes);
  }
}

TEST_CASE("a file that cannot be opened is an error with the reason") {
  const TempFolder folder;
  CHECK(contains(error_of([&] { file_store(folder.file("no/such/folder"), 2); }).what(), "No such file"));
  CHECK(contains(error_of([&] { file_store(folder.path(), 2); }).what(), "directory"));
  std::filesystem::create_symlink("/etc/passwd", folder.file("link"));
  CHECK(error_of([&] { file_store(folder.file("link"), 2); }).code() == ErrorCode::rendezvous);
  CHECK(error_of([] { file_store("", 2); }).code() == ErrorCode::invalid_argument);
  CHECK(error_of([&] { file_store(folder.file("store"), -1); }).code() == ErrorCode::invalid_argument);
}

TEST_CASE("a process that keeps the file locked does not keep others for ever") {
  const TempFolder folder;
  const std::string path = folder.file("store");
  const auto store = file_store(path, 0);
  store->set_timeout(30ms);
  const int holder = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(::flock(holder, LOCK_EX) == 0);
  CHECK(contains(error_of([&] { store->set("k", "v"); }).what(), "keeps it locked"));
  ::close(holder);
  CHECK_NOTHROW(store->set("k", "v"));
}

TEST_CASE("a copy of the store in a forked process does not sign out when it goes") {
  const TempFolder folder;
  const std::string path = folder.file("store");
  auto store = file_store(path, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    store.reset();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(std::filesystem::exists(path));
  store->set("k", "v");
  store.reset();
  CHECK(folder.is_empty());
}

namespace {

/// A process opens the store and is killed before it signs out.
void open_and_be_killed(const std::string& path, int users) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto store = file_store(path, users);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

}  // namespace

TEST_CASE("the last one left removes the file although another was killed") {
  const TempFolder folder;
  const std::string own = folder.file("job");
  {
    const auto store = open_file_store(own + "/store", 2, patience, true);
    open_and_be_killed(own + "/store", 2);
  }
  CHECK(folder.is_empty());
}

TEST_CASE("the last one left removes the file also if another gave its place back after one was killed") {
  const TempFolder folder;
  const std::string own = folder.file("job");
  {
    const auto last = open_file_store(own + "/store", 3, patience, true);
    last->set("key", "used");
    const auto unused = open_file_store(own + "/store", 3, patience, true);
    open_and_be_killed(own + "/store", 3);
  }
  CHECK(folder.is_empty());
}

TEST_CASE("the file stays for those who are still to come, who are told at once that it is stale") {
  const TempFolder folder;
  {
    const auto store = file_store(folder.file("store"), 3);
    open_and_be_killed(folder.file("store"), 3);
  }
  CHECK(contains(error_of([&] { file_store(folder.file("store"), 3); }).what(), "is stale"));
}

TEST_CASE("those who wait are told of one that was killed before all had come, and of none afterwards") {
  const TempFolder folder;
  const auto store = open_file_store(folder.file("store"), 3, patience);
  open_and_be_killed(folder.file("store"), 3);
  const auto begin = Clock::now();
  CHECK(contains(error_of([&] { store->get("k"); }).what(), "ended without closing it"));
  CHECK(Clock::now() - begin < patience);

  const auto full = open_file_store(folder.file("full"), 2, patience);
  open_and_be_killed(folder.file("full"), 2);
  CHECK(contains(error_of([&] { full->wait_for(Keys{"k"}, 700ms); }).what(), "waited 0.7 s for the key"));
}

TEST_CASE("a folder of the job's own is made for this user only, and goes with the file") {
  const TempFolder folder;
  const std::string own = folder.file("job");
  {
    const auto store = open_file_store(own + "/store", 1, patience, true);
    CHECK((std::filesystem::status(own).permissions() & std::filesystem::perms::all) ==
          std::filesystem::perms::owner_all);
  }
  CHECK(folder.is_empty());
  std::filesystem::create_directory(own);
  std::filesystem::permissions(own, std::filesystem::perms::all);
  CHECK(contains(error_of([&] { open_file_store(own + "/store", 1, patience, true); }).what(), "only this user"));
}

TEST_CASE("a file that others can read or change is refused, unless there is a secret") {
  const TempFolder folder;
  const std::string path = folder.file("store");
  const auto refusal = [&](FileGuard guard = FileGuard::user) {
    return std::string{error_of([&] { open_file_store(path, 1, patience, false, guard); }).what()};
  };
  for (const mode_t mode : {mode_t{0666}, mode_t{0644}, mode_t{0640}}) {
    CAPTURE(mode);
    write(path, "");
    ::chmod(path.c_str(), mode);
    CHECK(contains(refusal(), fmt::format("its mode is {:04o}", mode)));
    CHECK(contains(refusal(), "TUTTI_SECRET"));
    CHECK(content(path).empty());  // nothing was told
    open_file_store(path, 1, patience, false, FileGuard::secret)->set("k", "v");
  }
  if (::geteuid() == 0) {
    write(path, "");
    ::chmod(path.c_str(), 0600);
    REQUIRE(::chown(path.c_str(), 65'534, 65'534) == 0);
    CHECK(contains(refusal(), "it belongs to user 65534, not to user 0"));
    CHECK(content(path).empty());
    open_file_store(path, 1, patience, false, FileGuard::secret)->set("k", "v");
  }
}

TEST_CASE("a folder in which others may replace the file is refused") {
  const TempFolder folder;
  const std::string open_folder = folder.file("open");
  REQUIRE(::mkdir(open_folder.c_str(), 0700) == 0);
  const auto open = [&] { open_file_store(open_folder + "/store", 1, patience); };
  REQUIRE(::chmod(open_folder.c_str(), 0777) == 0);
  CHECK(contains(error_of(open).what(), "has mode 0777, so everybody could replace the file. chmod go-w "));
  REQUIRE(::chmod(open_folder.c_str(), 0775) == 0);
  CHECK(
      contains(error_of(open).what(), fmt::format("has mode 0775, so members of group {} could replace", ::getegid())));
  CHECK(contains(error_of(open).what(), "TUTTI_SECRET"));
  for (const mode_t mode : {mode_t{0755}, mode_t{01777}, mode_t{01775}}) {  // /tmp is like the second one
    CAPTURE(mode);
    REQUIRE(::chmod(open_folder.c_str(), mode) == 0);
    open();
  }
  if (::geteuid() == 0) {
    REQUIRE(::chmod(open_folder.c_str(), 0755) == 0);
    REQUIRE(::chown(open_folder.c_str(), 65'534, 65'534) == 0);
    CHECK(contains(error_of(open).what(), "belongs to user 65534"));
  }
}

TEST_CASE("a log that only looks makes no file") {
  const TempFolder folder;
  CHECK(contains(error_of([&] { FileLog(folder.file("log"), FileLog::Missing::refused); }).what(), "No such file"));
  CHECK(folder.is_empty());
}

TEST_CASE("two logs see each other's records in one order") {
  const TempFolder folder;
  FileLog a{folder.file("log")};
  FileLog b{folder.file("log")};
  const auto deadline = Clock::now() + patience;
  const auto add = [&](FileLog& log, const char* key) {
    const FileLog::Lock lock{log, FileLog::Lock::Kind::exclusive, deadline};
    std::string seen;
    for (const Record& record : log.read_new()) seen += record.key;
    log.append({RecordKind::set, key, std::string{"\0value", 6}});
    return seen;
  };
  CHECK(add(a, "1") == "");
  CHECK(add(b, "2") == "1");
  CHECK(add(b, "3") == "");
  CHECK(add(a, "4") == "23");
}

TEST_CASE("a process that ended is told from one that runs, and from one that cannot be seen") {
  rendezvous::Process me = rendezvous::this_process();
  CHECK(me.pid == ::getpid());
  CHECK(me.start > 0);
  CHECK_FALSE(has_ended(me));
  CHECK_FALSE(has_ended(*rendezvous::decode_process(encode(me))));
  CHECK_FALSE(rendezvous::decode_process("1 2"));
  rendezvous::Process earlier = me;
  earlier.start -= 1;  // the pid was given out again
  CHECK(has_ended(earlier));
  earlier.scope = "another boot/another name space";
  CHECK_FALSE(has_ended(earlier));

  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  rendezvous::Process zombie = me;
  zombie.pid = child;
  CHECK(eventually([&] { return has_ended(zombie); }));  // ended, though nobody has waited for it
  ::waitpid(child, nullptr, 0);
  CHECK(has_ended(zombie));
}

}  // namespace tutti::testing
