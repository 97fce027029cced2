// The program ends a wait (Ctrl-C in Python), whatever it is that a store waits for.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <thread>

#include "lib/base/wait_hook.h"
#include "rendezvous/file_log.h"
#include "rendezvous/launchers.h"
#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using Keys = std::vector<std::string>;

/// The hook of the program while this object lives.
class Program {
 public:
  explicit Program(std::function<bool()> ends) : ends_(std::move(ends)) { set_wait_hook({ask, this}); }
  ~Program() { set_wait_hook({}); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

 private:
  static std::int32_t ask(void* self) { return static_cast<Program*>(self)->ends_() ? 1 : 0; }

  std::function<bool()> ends_;
};

ErrorCode end_of(const std::function<void()>& wait) {
  const Program program{[] { return true; }};
  return error_of(wait).code();
}

}  // namespace

TEST_CASE("a store in memory asks the program while it waits, and is free meanwhile") {
  const auto store = memory_store();
  CHECK(end_of([&] { store->wait_for(Keys{"key"}, patience); }) == ErrorCode::aborted);
  store->set_timeout(patience);
  const Program program{[&] {
    store->set("key", "value");
    return false;
  }};
  CHECK(store->get("key") == "value");
}

TEST_CASE("connecting to a host that answers nothing ends where the program wants it") {
  const Descriptor full{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  REQUIRE(::listen(full.get(), 0) == 0);
  const net::Address address = net::local_address(full);
  const rendezvous::Endpoint endpoint{"127.0.0.1", address.port()};
  std::array<Descriptor, 4> waiting;  // the first ones fill the queue, so the kernel drops what else comes
  for (Descriptor& socket : waiting) {
    socket = Descriptor{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    static_cast<void>(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to));
  }
  CHECK(end_of([&] { rendezvous::connect_to(endpoint, Clock::now() + patience); }) == ErrorCode::aborted);
}

TEST_CASE("waiting until a name is known ends where the program wants it") {
  CHECK(end_of([] {
          rendezvous::await_addresses({"nobody.invalid", 0}, Clock::now() + patience);
        }) == ErrorCode::aborted);
}

TEST_CASE("a thread opens a store while another waits until the name of its own server is known") {
  std::atomic<bool> waits{false};
  std::atomic<bool> opened{false};
  const Program program{[&] {
    waits = true;
    return opened.load();
  }};
  ErrorCode end{};
  std::thread other{[&] {
    const rendezvous::Launch launch{.size = 2, .rendezvous = "tcp://nobody.invalid:1", .serve = true};
    end = error_of([&] { rendezvous::open_store(launch, patience); }).code();
  }};
  CHECK(eventually([&] { return waits.load(); }));
  const TempFolder folder;
  const auto store = rendezvous::open_store({.size = 2, .rendezvous = "file://" + folder.file("store")}, patience);
  opened = true;
  other.join();
  CHECK(end == ErrorCode::aborted);  // and not its deadline
}

TEST_CASE("the program may open a store at a place whose name another of its threads waits for") {
  std::atomic<bool> waits{false};
  std::atomic<bool> answered{false};
  const Program program{[&] {
    waits = true;
    return answered.load();
  }};
  const rendezvous::Launch launch{.size = 2, .rendezvous = "tcp://nobody.invalid:1", .serve = true};
  ErrorCode end{};
  std::thread other{[&] { end = error_of([&] { rendezvous::open_store(launch, patience); }).code(); }};
  CHECK(eventually([&] { return waits.load(); }));
  CHECK(error_of([&] { rendezvous::open_store(launch, 1ms); }).code() == ErrorCode::rendezvous);
  answered = true;
  other.join();
  CHECK(end == ErrorCode::aborted);  // and not its deadline
}

TEST_CASE("the end of a store in a file, a destructor, asks the program nothing") {
  const TempFolder folder;
  auto store = file_store(folder.file("store"), 1);
  const Descriptor other{::open(folder.file("store").c_str(), O_RDWR | O_CLOEXEC)};
  REQUIRE(::flock(other.get(), LOCK_EX) == 0);  // so that the store waits until it gives up
  int questions = 0;
  {
    const Program program{[&] {
      ++questions;
      return true;
    }};
    store.reset();
  }
  CHECK(questions == 0);
}

TEST_CASE("waiting for the lock of a file ends where the program wants it") {
  const TempFolder folder;
  rendezvous::FileLog log{folder.file("store")};
  const Descriptor other{::open(folder.file("store").c_str(), O_RDWR | O_CLOEXEC)};
  REQUIRE(::flock(other.get(), LOCK_EX) == 0);
  using Lock = rendezvous::FileLog::Lock;
  CHECK(end_of([&] { Lock{log, Lock::Kind::shared, Clock::now() + patience}; }) == ErrorCode::aborted);
}

}  // namespace tutti::testing
