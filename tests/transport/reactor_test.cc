#include "transport/reactor.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include "transport/sleep.h"

namespace {

using namespace std::chrono_literals;
using tutti::transport::Reactor;
using tutti::transport::sleep_until_woken;
using Clock = Reactor::Clock;

/// Two connected stream sockets, closed at the end.
struct Pair {
  Pair() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0); }
  ~Pair() {
    close(0);
    close(1);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void close(std::size_t end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }
  void write_byte() { CHECK(::write(ends[1], "x", 1) == 1); }
  bool read_byte() {
    char byte = 0;
    return ::read(ends[0], &byte, 1) == 1;
  }
  int operator[](std::size_t end) const { return ends[end]; }

  std::array<int, 2> ends{-1, -1};
};

Clock::time_point soon() { return Clock::now() + 10s; }
Clock::duration time_of_sleep(Reactor& reactor, Clock::time_point deadline) {
  const auto start = Clock::now();
  reactor.sleep(deadline);
  return Clock::now() - start;
}

}  // namespace

TEST_CASE("a descriptor that rests does not call back before it is woken, though it can be read") {
  Pair pair;
  Reactor reactor;
  int calls = 0;
  reactor.watch(pair[0], [&] {
    ++calls;
    reactor.rest(pair[0]);
  });
  pair.write_byte();
  for (int round = 1; round <= 3; ++round) {
    CHECK(reactor.poll());
    CHECK(calls == round);
    for (int i = 0; i < 3; ++i) CHECK_FALSE(reactor.poll());
    reactor.wake(pair[0]);
    reactor.wake(pair[0]);
  }
  reactor.unwatch(pair[0]);
  reactor.poll();
  CHECK(calls == 3);
}

TEST_CASE("a watched descriptor calls back when it can be read, and again until it has been read") {
  Pair pair;
  Reactor reactor;
  int calls = 0;
  reactor.watch(pair[0], [&] { ++calls; });
  reactor.poll();
  CHECK(calls == 0);
  pair.write_byte();
  CHECK(reactor.poll());
  CHECK(calls == 1);
  CHECK(reactor.poll());
  CHECK(calls == 2);
  CHECK(pair.read_byte());
  reactor.poll();
  CHECK(calls == 2);
  reactor.unwatch(pair[0]);
}

TEST_CASE("a descriptor that is never read cannot keep a pass from ending") {
  Pair pair;
  Reactor reactor;
  int calls = 0;
  reactor.watch(pair[0], [&] {
    ++calls;
    pair.write_byte();
  });
  pair.write_byte();
  reactor.poll();
  CHECK(calls == 1);
  reactor.unwatch(pair[0]);
}

TEST_CASE("a hang-up counts as readable") {
  Pair pair;
  Reactor reactor;
  bool called = false;
  reactor.watch(pair[0], [&] { called = true; });
  pair.close(1);
  reactor.sleep(soon());
  CHECK(called);
  reactor.unwatch(pair[0]);
}

TEST_CASE("sleep ends when a descriptor can be read") {
  Pair pair;
  Reactor reactor;
  bool called = false;
  reactor.watch(pair[0], [&] { called = true; });
  std::thread writer([&] { pair.write_byte(); });
  reactor.sleep(soon());
  writer.join();
  CHECK(called);
  reactor.unwatch(pair[0]);
}

TEST_CASE("writable calls back once, also when asked again from inside") {
  Pair pair;
  Reactor reactor;
  int calls = 0;
  reactor.watch(pair[0], [] {});
  reactor.wait_writable(pair[0], [&] {
    ++calls;
    if (calls == 1) reactor.wait_writable(pair[0], [&] { ++calls; });
  });
  for (int i = 0; i < 5; ++i) reactor.poll();
  CHECK(calls == 2);
  reactor.unwatch(pair[0]);
}

TEST_CASE("a full descriptor becomes writable when its peer has read") {
  Pair pair;
  Reactor reactor;
  std::array<char, 4096> bytes{};
  while (::write(pair[0], bytes.data(), bytes.size()) > 0) continue;
  bool called = false;
  reactor.watch(pair[0], [] {});
  reactor.wait_writable(pair[0], [&] { called = true; });
  reactor.poll();
  CHECK_FALSE(called);
  while (::read(pair[1], bytes.data(), bytes.size()) > 0) continue;
  reactor.sleep(soon());
  CHECK(called);
  reactor.unwatch(pair[0]);
}

TEST_CASE("unwatch leaves the descriptor open and silences it, even from inside its callback") {
  Pair pair;
  Reactor reactor;
  int calls = 0;
  auto captured = std::make_shared<int>(7);
  reactor.watch(pair[0], [&, captured] {
    reactor.unwatch(pair[0]);
    calls += *captured == 7 ? 1 : 100;  // what the callback holds is still there
  });
  pair.write_byte();
  reactor.poll();
  reactor.poll();
  CHECK(calls == 1);
  CHECK(captured.use_count() == 1);
  CHECK(::fcntl(pair[0], F_GETFD) >= 0);
  CHECK(pair.read_byte());
}

TEST_CASE("one callback may unwatch another descriptor that is ready in the same pass") {
  Pair first;
  Pair second;
  Reactor reactor;
  int calls = 0;
  const auto once = [&] {
    ++calls;
    reactor.unwatch(first[0]);
    reactor.unwatch(second[0]);
  };
  reactor.watch(first[0], once);
  reactor.watch(second[0], once);
  first.write_byte();
  second.write_byte();
  reactor.poll();
  reactor.poll();
  CHECK(calls == 1);
}

TEST_CASE("a descriptor can be watched again after it was unwatched") {
  Pair pair;
  Reactor reactor;
  int calls = 0;
  for (int round = 0; round < 100; ++round) {
    reactor.watch(pair[0], [&] { ++calls; });
    pair.write_byte();
    reactor.poll();
    CHECK(pair.read_byte());
    reactor.unwatch(pair[0]);
  }
  CHECK(calls == 100);
}

TEST_CASE("sleep ends at its deadline, or earlier where wake_by asks for it, once") {
  Reactor reactor;
  CHECK(time_of_sleep(reactor, Clock::now() + 20ms) >= 20ms);
  CHECK(time_of_sleep(reactor, Clock::now() - 1s) < 5s);
  reactor.wake_by(Clock::now() + 20ms);
  reactor.wake_by(Clock::now() + 30s);
  CHECK(time_of_sleep(reactor, soon()) < 5s);
  CHECK(time_of_sleep(reactor, Clock::now() + 50ms) >= 50ms);
}

TEST_CASE("interrupt ends a sleep under way") {
  Reactor reactor;
  std::atomic<bool> flag{false};
  std::thread other([&] {
    flag = true;
    reactor.interrupt();
  });
  while (!flag) reactor.sleep(soon());
  other.join();
  CHECK(flag);
}

TEST_CASE("interrupt before sleep makes the next one return at once, whatever poll does in between") {
  Reactor reactor;
  reactor.interrupt();
  reactor.interrupt();
  reactor.poll();
  CHECK(time_of_sleep(reactor, soon()) < 5s);
  CHECK(time_of_sleep(reactor, Clock::now() + 30ms) >= 30ms);
}

TEST_CASE("no interrupt is lost when many come from other threads") {
  Reactor reactor;
  constexpr int rounds = 2000;
  std::atomic<int> asked{0};
  std::atomic<int> answered{0};
  std::thread other([&] {
    for (int i = 1; i <= rounds; ++i) {
      asked = i;
      reactor.interrupt();
      while (answered < i) std::this_thread::yield();
    }
  });
  const auto start = Clock::now();
  while (answered < rounds && Clock::now() - start < 60s) {
    reactor.sleep(soon());
    answered = asked.load();
  }
  other.join();
  CHECK(Clock::now() - start < 60s);
}

TEST_CASE("a reactor can be destroyed with descriptors watched and an interrupt pending") {
  Pair pair;
  {
    Reactor reactor;
    reactor.watch(pair[0], [] {});
    reactor.wait_writable(pair[0], [] {});
    pair.write_byte();
    reactor.interrupt();
  }
  CHECK(pair.read_byte());
}

TEST_CASE("who sleeps looks once more with the alarm up, for what was on its way at the first look") {
  Reactor reactor;
  int looks = 0;
  const auto start = Clock::now();
  sleep_until_woken(reactor, soon(), [&] { return ++looks < 2; });
  CHECK(looks == 2);
  CHECK(Clock::now() - start < 5s);
}

TEST_CASE("who has something to do at the first look does not sleep, and runs the handlers that are ready") {
  Pair pair;
  Reactor reactor;
  bool was_read = false;
  reactor.watch(pair[0], [&] { was_read = pair.read_byte(); });
  pair.write_byte();
  int looks = 0;
  sleep_until_woken(reactor, soon(), [&] {
    ++looks;
    return false;
  });
  CHECK(looks == 1);
  CHECK(was_read);
}

TEST_CASE("a wake-up ends the sleep after the first look and after the second") {
  for (const int woken_at : {1, 2}) {
    Pair pair;
    Reactor reactor;
    bool was_read = false;
    reactor.watch(pair[0], [&] { was_read = pair.read_byte(); });
    int looks = 0;
    sleep_until_woken(reactor, soon(), [&] {
      if (++looks == woken_at) pair.write_byte();  // the alarm is up: from now on others wake this rank
      return true;
    });
    CHECK(was_read);
    CHECK(looks == woken_at);
  }
}

TEST_CASE("a sleep ends at its time, and tells whether anything woke it") {
  Reactor reactor;
  int looks = 0;
  sleep_until_woken(reactor, Clock::now() + 50ms, [&] { return ++looks > 0; });
  CHECK(looks == 2);
  sleep_until_woken(reactor, Clock::now(), [&] { return ++looks > 0; });
  CHECK(looks == 3);
  CHECK_FALSE(reactor.sleep(Clock::now() + 1ms));
  reactor.interrupt();
  CHECK(reactor.sleep(soon()));
}
