// An acceptor of its own and those who connect to it, without a transport around them.

#include "transport/connector.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tests/support/connected.h"
#include "tests/transport/no_descriptors.h"
#include "tests/transport/tcp_pair.h"
#include "transport/acceptor.h"
#include "transport/stream_socket.h"

namespace tutti::transport::testing {
namespace {

using namespace std::chrono_literals;
using tutti::testing::connect_as;
using tutti::testing::Connected;

const Hello detector_hello{.from = 4, .to = 7, .channel = 9, .purpose = Purpose::failure_detector};

/// Rank 7's acceptor, and the ranks that it has let in.
struct House {
  explicit House(const net::Address& at, AcceptorOptions options = {}) : acceptor(at, {key, 7}, std::move(options)) {
    acceptor.serve(Purpose::failure_detector, [this](const Hello& who, net::Socket socket) {
      const std::lock_guard lock{mutex};
      accepted.emplace_back(who, std::move(socket));
      came.notify_all();
    });
  }

  std::pair<Hello, net::Socket> next() {
    std::unique_lock lock{mutex};
    REQUIRE(came.wait_for(lock, 30s, [this] { return !accepted.empty(); }));
    auto peer = std::move(accepted.front());
    accepted.erase(accepted.begin());
    return peer;
  }

  std::mutex mutex;
  std::condition_variable came;
  std::vector<std::pair<Hello, net::Socket>> accepted;
  Acceptor acceptor;
};

/// Has a descriptor already when it connects.
struct Caller {
  explicit Caller(const std::string& to)
      : address(*net::parse_address(to)), socket(net::make_stream(address.family())) {}

  RawPeer connect() {
    const int error = net::begin_connect(socket, address);
    REQUIRE((error == 0 || error == EINPROGRESS));
    REQUIRE(net::wait_until_ready(socket, POLLOUT, Clock::now() + 30s));
    return RawPeer(std::move(socket));
  }

  net::Address address;
  net::Socket socket;
};

/// What becomes of it; bounded.
int outcome_of(Connector& connector) {
  const auto deadline = Clock::now() + 30s;
  int error = connector.advance();
  while (error == EAGAIN && Clock::now() < deadline) {
    pollfd query{.fd = connector.fd(), .events = connector.events(), .revents = 0};
    ::poll(&query, 1, 100);
    error = connector.advance();
  }
  return error;
}

/// The error of an attempt, or of several until `deadline`; 0: it is let in.
int error_at(const std::string& address, Clock::time_point deadline, const Secret& with = key) {
  return connect_as(detector_hello, address, with, deadline).error;
}

}  // namespace

TEST_CASE("pauses between attempts grow up to a quarter of a second") {
  CHECK(pause_after(7) == std::chrono::milliseconds{128});
  CHECK(pause_after(1'000'000) == std::chrono::milliseconds{250});
}

TEST_CASE_TEMPLATE("a rank that dials with the key gets through, and both ends are clean behind the proofs", Kind,
                   OverTcp, OverUnix) {
  House house(Kind::anywhere());
  for (int i = 0; i < 3; ++i) {
    RawPeer caller(connect_as(detector_hello, house.acceptor.address(), key, Clock::now() + 30s).socket);
    auto [who, socket] = house.next();
    CHECK(who == detector_hello);
    CHECK((::fcntl(socket.get(), F_GETFL) & O_NONBLOCK) != 0);
    CHECK((::fcntl(socket.get(), F_GETFD) & FD_CLOEXEC) != 0);
    ::fcntl(socket.get(), F_SETFL, 0);
    RawPeer peer(std::move(socket));
    peer.write("hello, caller");
    CHECK_FALSE(caller.closed_by_peer());
    while (caller.heard().size() < 13) caller.closed_by_peer();
    CHECK(caller.heard() == "hello, caller");
    caller.write("hello, peer");
    CHECK(peer.read(11) == "hello, peer");
  }
  CHECK(house.acceptor.unproved() == 0);
}

TEST_CASE_TEMPLATE("a rank that dials with another key is told so at once", Kind, OverTcp, OverUnix) {
  const House house(Kind::anywhere());
  const auto start = Clock::now();
  CHECK(error_at(house.acceptor.address(), start + 30s, other_key) == Connector::another_secret);
  CHECK(Clock::now() - start < 10s);
}

TEST_CASE_TEMPLATE("a rank that dials for another rank or purpose is turned away until the deadline", Kind, OverTcp,
                   OverUnix) {
  const House house(Kind::anywhere());
  Hello other_rank = detector_hello;
  other_rank.to = 6;
  Hello other_purpose = detector_hello;
  other_purpose.purpose = Purpose::link;
  for (const Hello& wrong : {other_rank, other_purpose})
    CHECK(connect_as(wrong, house.acceptor.address(), key, Clock::now() + 50ms).error != 0);
  CHECK(house.accepted.empty());
}

TEST_CASE_TEMPLATE("nobody there, nobody who answers, and nonsense end in time with the reason", Kind, OverTcp,
                   OverUnix) {
  RawListener nobody(RawListener::Start::later, Kind::anywhere());
  RawListener silent(Kind::anywhere());
  RawListener foreign(Kind::anywhere());
  std::thread talker([&] {
    RawPeer peer = foreign.accept();
    peer.write(std::string(100, 'x'));
    peer.read(1000);
  });
  CHECK(error_at(nobody.address(), Clock::now() + 50ms) == ECONNREFUSED);
  CHECK(error_at(silent.address(), Clock::now() + 50ms) == ETIMEDOUT);
  CHECK(error_at(foreign.address(), Clock::now() + 30s) == Connector::another_secret);
  talker.join();
}

TEST_CASE_TEMPLATE("an acceptor that opens later is found", Kind, OverTcp, OverUnix) {
  RawListener later(RawListener::Start::later, Kind::anywhere());
  std::thread opener([&] {
    later.start();
    RawPeer peer = later.accept();
    CHECK(peer.shake_hands(Handshake::accept(key, Purpose::failure_detector, 7)));
  });
  CHECK(error_at(later.address(), Clock::now() + 30s) == 0);
  opener.join();
}

TEST_CASE_TEMPLATE("an acceptor without descriptors to spare lets people in once there are some", Kind, OverTcp,
                   OverUnix) {
  House house(Kind::anywhere());
  Caller waiting(house.acceptor.address());
  {
    const NoDescriptors none;
    RawPeer peer = waiting.connect();
    peer.write("x");  // somebody to be accepted, who cannot be
    bool looked = false;
    std::mutex mutex;
    std::condition_variable done;
    house.acceptor.look(Purpose::failure_detector, [&] {
      const std::lock_guard lock{mutex};
      looked = true;
      done.notify_all();
    });
    std::unique_lock lock{mutex};
    REQUIRE(done.wait_for(lock, 30s, [&] { return looked; }));
  }
  CHECK(error_at(house.acceptor.address(), Clock::now() + 30s) == 0);
}

TEST_CASE_TEMPLATE("without descriptors to spare a stranger goes for a peer", Kind, OverTcp, OverUnix) {
  House house(Kind::anywhere(), {.patience = 1000s, .least_patience = 0ms});
  RawPeer stranger(house.acceptor.address(), "TUTI");
  while (house.acceptor.unproved() == 0) std::this_thread::yield();
  Caller caller(house.acceptor.address());
  const NoDescriptors none;
  RawPeer peer = caller.connect();
  CHECK(peer.shake_hands(Handshake::initiate(key, detector_hello)));
  CHECK(house.next().first == detector_hello);
  CHECK(stranger.closed_by_peer());
}

TEST_CASE("those whose silence has outlasted the kernel's patience make room for a peer at once") {
  House house(OverTcp::anywhere(), {.patience = 1000s, .least_patience = 1000s, .silence = 1s});
  std::vector<RawPeer> crowd;
  for (int i = 0; i < 300; ++i) crowd.emplace_back(house.acceptor.address(), "");
  const auto end = Clock::now() + 30s;
  bool full = false;  // for a moment, since one goes for each who comes
  while (!(full = house.acceptor.unproved() == 128) && Clock::now() < end) std::this_thread::yield();
  REQUIRE(full);
  CHECK(error_at(house.acceptor.address(), Clock::now() + 30s) == 0);
}

TEST_CASE_TEMPLATE("a look hears everybody who had come", Kind, OverTcp, OverUnix) {
  House house(Kind::anywhere());
  std::vector<RawPeer> callers;
  for (int i = 0; i < 20; ++i) {
    callers.emplace_back(house.acceptor.address(), "");
    Handshake handshake = Handshake::initiate(key, detector_hello);
    callers.back().say_hello(handshake);
    callers.back().write(text_of(handshake.outgoing()));
  }
  std::mutex mutex;
  std::condition_variable done;
  std::size_t accepted = 0;
  bool looked = false;
  house.acceptor.look(Purpose::failure_detector, [&] {
    const std::scoped_lock lock{mutex, house.mutex};
    accepted = house.accepted.size();
    looked = true;
    done.notify_all();
  });
  std::unique_lock lock{mutex};
  REQUIRE(done.wait_for(lock, 30s, [&] { return looked; }));
  CHECK(accepted == 20);
}

TEST_CASE_TEMPLATE("one acceptor serves several purposes, each as long as it is served", Kind, OverTcp, OverUnix) {
  House house(Kind::anywhere());
  Hello link = detector_hello;
  link.purpose = Purpose::link;
  std::atomic<int> links{0};
  const std::string address = house.acceptor.address();
  const auto is_let_in = [&](const Hello& who) { return connect_as(who, address, key, Clock::now() + 30s).error == 0; };
  house.acceptor.serve(Purpose::link, [&](const Hello& who, const net::Socket&) {
    CHECK(who == link);
    ++links;
  });
  CHECK(is_let_in(link));
  CHECK(is_let_in(detector_hello));
  CHECK(house.next().first == detector_hello);
  CHECK(links == 1);

  house.acceptor.dismiss(Purpose::link);
  CHECK(connect_as(link, address, key, Clock::now() + 50ms).error != 0);
  CHECK(links == 1);
  CHECK(is_let_in(detector_hello));
  CHECK(house.next().first == detector_hello);
}

TEST_CASE_TEMPLATE("a look at an acceptor that is closed ends at once, and nobody finds it", Kind, OverTcp, OverUnix) {
  House house(Kind::anywhere());
  const std::string address = house.acceptor.address();
  house.acceptor.close();
  bool looked = false;
  house.acceptor.look(Purpose::failure_detector, [&] { looked = true; });
  CHECK(looked);
  Connector nobody{*net::parse_address(address)};
  CHECK(outcome_of(nobody) == ECONNREFUSED);
}

TEST_CASE_TEMPLATE("an acceptor that closes shows everybody out", Kind, OverTcp, OverUnix) {
  auto house = std::make_unique<House>(Kind::anywhere());
  RawPeer half(house->acceptor.address(), "TU");
  while (house->acceptor.unproved() == 0) std::this_thread::yield();
  house.reset();
  const auto end = Clock::now() + 30s;
  while (!half.closed_by_peer() && Clock::now() < end) std::this_thread::yield();
  CHECK(half.closed_by_peer());
}

TEST_CASE_TEMPLATE("whether anybody listens is known without a word to whoever does", Kind, OverTcp, OverUnix) {
  House house(Kind::anywhere());
  const std::string address = house.acceptor.address();
  Connector there{*net::parse_address(address)};
  CHECK(outcome_of(there) == 0);
  CHECK(house.accepted.empty());
  if (!net::parse_address(address)->is_unix()) CHECK(house.acceptor.unproved() == 0);  // the kernel holds it back

  const RawListener bound(RawListener::Start::later, Kind::anywhere());
  Connector nobody{*net::parse_address(bound.address())};
  CHECK(outcome_of(nobody) == ECONNREFUSED);
}

TEST_CASE("connections of another user do not keep the acceptor from those that wait for it") {
  if (::geteuid() != 0) return;  // only root can become another user
  House house(net::any_unix_address());
  const std::string address = house.acceptor.address();
  std::vector<RawPeer> strangers;
  std::size_t shown_out = 0;
  std::atomic<bool> busy = false, resume = false, served = false;
  house.acceptor.serve(Purpose::link, [&](const Hello&, const net::Socket&) {  // keeps the acceptor's thread
    busy = true;
    for (const auto end = Clock::now() + 30s; !resume && Clock::now() < end;) std::this_thread::yield();
  });
  house.acceptor.serve(Purpose::failure_detector, [&](const Hello&, const net::Socket&) {
    for (RawPeer& stranger : strangers)
      if (stranger.closed_by_peer()) ++shown_out;
    served = true;
  });
  Connector waiting(*net::parse_address(address), key, detector_hello, nullptr);
  REQUIRE(waiting.advance() == EAGAIN);
  REQUIRE(net::wait_until_ready(waiting.socket(), POLLIN, Clock::now() + 30s));
  const Hello link_hello{.from = 4, .to = 7, .channel = 9, .purpose = Purpose::link};
  const Connected first = connect_as(link_hello, address, key, Clock::now() + 30s);
  while (!busy) std::this_thread::yield();
  std::thread([&] {
    ::syscall(SYS_setresuid, -1, 65534, -1);  // of this thread alone
    for (int i = 0; i < 200; ++i) strangers.emplace_back(address, "");
  }).join();
  CHECK(waiting.advance() == EAGAIN);  // the proof, which comes behind the strangers
  resume = true;
  for (const auto end = Clock::now() + 30s; !served && Clock::now() < end;) std::this_thread::yield();
  REQUIRE(served);
  CHECK(outcome_of(waiting) == 0);
  CHECK(shown_out > 0);
  CHECK(shown_out < strangers.size());
  bool looked = false;
  std::atomic<bool> ended = false;
  house.acceptor.look(Purpose::failure_detector, [&] {
    looked = true;
    for (RawPeer& stranger : strangers) looked = looked && stranger.closed_by_peer();
    ended = true;
  });
  for (const auto end = Clock::now() + 30s; !ended && Clock::now() < end;) std::this_thread::yield();
  CHECK(looked);
}

TEST_CASE_TEMPLATE("a connection that finds a full queue is not refused, and does not wait for nothing", Kind, OverTcp,
                   OverUnix) {
  RawListener listener(Kind::anywhere());
  listener.shorten_queue();
  std::optional<RawPeer> first(std::in_place, listener.address(), "");
  Connector second{*net::parse_address(listener.address())};
  const int error = second.advance();
  CHECK(error == (net::parse_address(listener.address())->is_unix() ? net::queue_full : EAGAIN));
  CHECK(second.advance() == error);
  CHECK(worth_retrying(net::queue_full));
  CHECK(error_at(listener.address(), Clock::now() + 50ms) != 0);

  std::thread opener([&] {
    first.reset();
    for (bool let_in = false; !let_in;)
      let_in = listener.accept().shake_hands(Handshake::accept(key, Purpose::failure_detector, 7));
  });
  CHECK(error_at(listener.address(), Clock::now() + 30s) == 0);
  opener.join();
}

TEST_CASE_TEMPLATE("a process that is stopped is there but does not answer, and one that is killed is gone", Kind,
                   OverTcp, OverUnix) {
  std::optional<RawListener> listener(std::in_place, Kind::anywhere());
  const std::string address = listener->address();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  listener.reset();  // the child has it
  ::kill(child, SIGSTOP);
  int status = 0;
  CHECK(::waitpid(child, &status, WUNTRACED) == child);
  Connector there{*net::parse_address(address)};
  CHECK(outcome_of(there) == 0);
  CHECK(error_at(address, Clock::now() + 50ms) == ETIMEDOUT);
  RawPeer waiting(address, "TUTI");
  CHECK_FALSE(waiting.closed_by_peer());

  ::kill(child, SIGKILL);
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(waiting.closed_by_peer());
  Connector nobody{*net::parse_address(address)};
  CHECK(outcome_of(nobody) == ECONNREFUSED);
}

}  // namespace tutti::transport::testing
