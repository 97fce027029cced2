// How tls_proxies end, and their service, and the process.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "tests/lib/security/tls_proxy_pair.h"
#include "tests/support/sample.h"

namespace tutti::testing {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr bool has_thread_sanitizer = true;
#else
constexpr bool has_thread_sanitizer = false;
#endif

std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator{folder}, std::filesystem::directory_iterator{});
}

/// Then they hold no lock of the allocator's or OpenSSL's, for which a child of fork() would wait forever.
bool other_threads_sleep() {
  for (const auto& task : std::filesystem::directory_iterator{"/proc/self/task"}) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::ifstream file{task.path() / "stat"};
    const std::string stat{std::istreambuf_iterator<char>{file}, {}};
    const std::size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos || stat.compare(name_end, 3, ") S") != 0) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("the end of the service sends what was written, and leaves nothing behind") {
  { Pair warm; }  // what OpenSSL and Asio make once
  const auto descriptors = entries("/proc/self/fd");
  const auto threads = entries("/proc/self/task");
  for (const bool somebody_holds_it : {false, true}) {
    const std::string sent = text(mebibyte / 8);
    {
      Pair pair;
      REQUIRE(pair.ready());
      // As a child of fork() does.
      const Descriptor held{somebody_holds_it ? ::dup(pair.first.get()) : -1};
      REQUIRE(write_all(pair.first, sent));
      pair.first.reset();
      pair.one.reset();
      CHECK((read(pair.second, sent.size()) == sent));
      CHECK(has_ended(pair.second));
    }
    CHECK(entries("/proc/self/fd") == descriptors);
    CHECK(await([&] { return entries("/proc/self/task") == threads; }));
  }
}

TEST_CASE("the end of the service is bounded where the other side does not read") {
  Pair pair;
  REQUIRE(pair.ready());
  const std::string piece = text(mebibyte / 8);
  for (auto last = Clock::now(); Clock::now() - last < 100ms;)
    if (::send(pair.first.get(), piece.data(), piece.size(), MSG_NOSIGNAL) > 0) last = Clock::now();
  const auto begin = Clock::now();
  pair.one.reset();
  CHECK(Clock::now() - begin < 8s);  // two seconds, on a busy machine
}

TEST_CASE("a child of fork() has no say, and does not wait") {
  Pair pair;
  REQUIRE(pair.ready());
  REQUIRE(await(other_threads_sleep));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    auto [wire, rest] = connected_sockets();
    bool fine = !pair.one->encrypt(std::move(wire), Side::client, key_of(1)) && errno == ENOTCONN;
    pair.one.reset();
    pair.other.reset();
    if (!has_thread_sanitizer) {  // it has no threads after fork()
      Pair own;                   // a service of its own is another matter
      fine = fine && own.ready() && write_all(own.first, "x") && read(own.second, 1) == "x";
    }
    ::_exit(fine ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  REQUIRE(write_all(pair.first, "still here"));
  CHECK(read(pair.second, 10) == "still here");
}

TEST_CASE("a child of fork() can encrypt, whatever its parent's threads do then") {
  if (sanitized) return;  // threads after fork(), and allocators that are not made for that
  std::atomic<bool> over{false};
  std::thread busy{[&] {
    while (!over) Pair{}.ready();
  }};
  for (int i = 0; i < 40; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      const Pair own;
      ::_exit(own.ready() ? 0 : 1);
    }
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  over = true;
  busy.join();
}

}  // namespace tutti::testing
