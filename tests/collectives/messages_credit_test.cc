// The credit that a sender of eager messages needs, and how it comes back.

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <latch>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/signal.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

/// After it rank 0 and the others know each other.
void meet_rank_0(Communicator& comm) {
  int token = comm.rank();
  if (comm.rank() == 0) {
    for (int peer = 1; peer < comm.size(); ++peer) {
      comm.send(std::span{&token, 1}, peer);
      comm.recv(std::span{&token, 1}, peer);
    }
  } else {
    comm.recv(std::span{&token, 1}, 0);
    comm.send(std::span{&token, 1}, 0);
  }
}

TEST_CASE("bytes taken at once are credited to their sender, which could not send as many unasked") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    meet_rank_0(comm);
    constexpr int messages = 8192;  // each counts 260 bytes of the credit, which is a MiB
    std::size_t at_once = 0;
    for (int i = 0; i < messages; ++i) {
      if (comm.rank() == 0) {
        Work work = comm.isend(std::span{&i, 1}, 1);
        if (work.done()) ++at_once;
        work.wait();
        if (i % 4 == 3) comm.recv(std::vector<int>(1), 1);
      } else {
        int got = -1;
        CHECK(comm.recv(std::span{&got, 1}, 0).count == 1);
        REQUIRE(got == i);
        if (i % 4 == 3) comm.send(std::span{&i, 1}, 0);
      }
    }
    if (comm.rank() == 0) CHECK(at_once > messages * 9 / 10);
  });
}

TEST_CASE("a send that lacks credit looks for it and leaves other ranks' messages where they are") {
  struct {
    Signal taken, credited, filled, looked, checked;
  } signals;
  std::size_t others = 0;  // messages of rank 2
  run_ranks({.ranks = 3, .kind = Kind::shm}, [&](Communicator& comm) {
    meet_rank_0(comm);
    constexpr std::size_t size = 256 * 1024;
    constexpr int rounds = 6;  // a third message waits for no credit, a fourth does
    std::vector<std::byte> data(size);
    const auto send_rounds = [&] {
      for (int round = 0; round < rounds; ++round) {
        comm.send(data, 1);
        signals.taken.await();
      }
    };
    if (comm.rank() == 0) {
      send_rounds();  // the first credit comes on a link that nobody knows yet
      signals.credited.give();
      signals.filled.await();
      send_rounds();
      signals.looked.give();
      signals.checked.await();
      for (std::size_t message = 0; message < others; ++message) comm.recv(data, 2);
    } else if (comm.rank() == 1) {
      for (int round = 0; round < 2 * rounds; ++round) {
        comm.recv(data, 0);
        signals.taken.give();
      }
    } else {
      signals.credited.await();
      std::vector<Work> sends;
      do sends.push_back(comm.isend(std::span{data}.first(size / 2), 0));
      while (sends.back().done());  // until they fill the ring
      others = sends.size();
      signals.filled.give();
      signals.looked.await();
      CHECK_FALSE(sends.back().wait_for(50ms));
      signals.checked.give();
      sends.back().wait();
    }
  });
}

TEST_CASE("a send to a rank that has left fails, although credit for that rank has failed before") {
  for (const Kind kind : {Kind::inproc, Kind::shm}) {
    CAPTURE(std::string{name_of(kind)});
    std::latch left{1};
    run_ranks({.ranks = 2, .kind = kind}, [&](Communicator& comm) {
      std::vector<char> message(60'000);
      constexpr int enough_for_credit = 9;
      const auto end = std::chrono::steady_clock::now() + 20s;
      if (comm.rank() == 1) {
        for (int i = 0; i < enough_for_credit; ++i) comm.send(message, 0);
        { const Communicator last = std::move(comm); }
        return left.count_down();
      }
      for (int i = 1; i < enough_for_credit; ++i) comm.recv(message, 1);
      while (!left.try_wait() && std::chrono::steady_clock::now() < end) (void)comm.iprobe(1, {.tag = 7});
      comm.recv(message, 1);
      for (int i = 0; i < 100; ++i) CHECK_FALSE(comm.iprobe(1));
      ErrorCode code{};
      error_of([&] { comm.send(message, 1, {.timeout = 20s}); }, &code);
      CHECK(code == ErrorCode::peer_lost);
    });
  }
}

}  // namespace
}  // namespace tutti::testing
