// sendrecv() in a circle, and messages that are looked at before they are received.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <latch>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/world.h"

namespace tutti::testing {

using std::chrono::milliseconds;

TEST_CASE("all ranks pass data of any size around a circle with sendrecv") {
  for (const Kind kind : all_kinds) {
    CAPTURE(std::string{name_of(kind)});
    run_ranks({.ranks = 3, .kind = kind}, [](Communicator& comm) {
      const int next = (comm.rank() + 1) % 3, before = (comm.rank() + 2) % 3;
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{20'000}, std::size_t{500'000}}) {
        std::vector<int> out(count + static_cast<std::size_t>(comm.rank()), comm.rank()), in(count + 3, -1);
        const MessageStatus status = comm.sendrecv(out, next, in, before, {.tag = 5});
        CHECK(status.source == before);
        CHECK(status.tag == 5);
        CHECK(status.count == count + static_cast<std::size_t>(before));
        in.resize(status.count);
        CHECK(in == std::vector<int>(status.count, before));
      }
      std::vector<int> to_self(7, 1), from_self(7);
      comm.sendrecv(to_self, comm.rank(), from_self, any_source, {.tag = 1});
      CHECK(from_self == to_self);
    });
  }
}

TEST_CASE("sendrecv fails as its halves do, and says which") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    int out[2] = {1, 2}, in[2] = {};
    const int other = 1 - comm.rank();
    CHECK_THROWS_WITH_AS(comm.sendrecv(out, 2, in, other), doctest::Contains("send on rank"), Error);
    CHECK_THROWS_WITH_AS(comm.sendrecv(out, other, in, -7), doctest::Contains("recv on rank"), Error);
    ErrorCode code{};
    error_of([&] { comm.sendrecv(out, other, std::span{in, 1}, other); }, &code);
    CHECK(code == ErrorCode::truncated);
    comm.sendrecv(out, other, in, other);  // nothing of those was sent, or is left
    CHECK(in[1] == 2);
  });
}

TEST_CASE("sendrecv refuses buffers that overlap, since the message that comes could overwrite the one that goes") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    std::vector<int> data{0, 1, 2, 3};
    const std::span all{data};
    const int other = 1 - comm.rank();
    const auto refused = [&](std::span<int> out, std::span<int> in, int peer) {
      ErrorCode code{};
      const std::string message = error_of([&] { comm.sendrecv(out, peer, in, peer); }, &code);
      CHECK(code == ErrorCode::invalid_argument);
      CHECK_MESSAGE(message.find(fmt::format("sendrecv on rank {} of 2: in and out overlap", comm.rank())) == 0,
                    message);
    };
    for (const int peer : {other, comm.rank()}) {
      refused(all, all, peer);
      refused(all, all.last(1), peer);
      refused(all.first(3), all.last(3), peer);
      refused(all.last(3), all.first(2), peer);
    }
    CHECK(data == std::vector<int>{0, 1, 2, 3});
    comm.sendrecv(all.first(2), other, all.last(2), other);  // side by side
    CHECK(data == std::vector<int>{0, 1, 0, 1});
    const std::span inside = all.subspan(1, 0);
    CHECK(comm.sendrecv(inside, other, inside, other).count == 0);
    if (comm.rank() == 0)
      CHECK(comm.sendrecv(inside, other, all, other).count == 4);
    else
      CHECK(comm.sendrecv(all, other, inside, other).count == 0);
  });
}

TEST_CASE("probe waits for a message and leaves it to a receive of the right size") {
  for (const Kind kind : all_kinds) {
    CAPTURE(std::string{name_of(kind)});
    run_ranks({.ranks = 3, .kind = kind}, [](Communicator& comm) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{400'000}}) {
        if (comm.rank() > 0) {
          int token = 0;
          comm.recv(std::span{&token, 1}, 0, {.tag = 9});
          std::vector<int> data(count, comm.rank());
          comm.send(data, 0, {.tag = comm.rank()});
          continue;
        }
        CHECK_FALSE(comm.iprobe(any_source, {.tag = any_tag}));
        for (const int peer : {2, 1}) comm.send(std::span{&peer, 1}, peer, {.tag = 9});
        for (const int peer : {2, 1}) {
          const MessageStatus found = comm.probe(peer == 2 ? 2 : any_source, {.tag = peer});
          CHECK(found.source == peer);
          CHECK(found.tag == peer);
          CHECK(found.count == count);
          const auto again = comm.iprobe(peer, {.tag = any_tag});
          REQUIRE(again);
          CHECK(again->count == count);
          CHECK_FALSE(comm.iprobe(peer, {.tag = 7}));
          std::vector<int> data(found.count);
          comm.recv(data, found.source, {.tag = found.tag});
          CHECK(data == std::vector<int>(count, peer));
        }
      }
      comm.barrier();
    });
  }
}

TEST_CASE("iprobe sees a message without anybody waiting") {
  for (const Kind kind : all_kinds) {
    CAPTURE(std::string{name_of(kind)});
    run_ranks({.ranks = 2, .kind = kind}, [](Communicator& comm) {
      int value = 3;
      if (comm.rank() == 1) return comm.send(std::span{&value, 1}, 0);
      while (!comm.iprobe(1)) {
      }
      comm.recv(std::span{&value, 1}, 1);
      CHECK_FALSE(comm.iprobe(1));
    });
  }
}

TEST_CASE("a probe gives way to the receive that was there first, and several may wait for one message") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    int first = 0, second = 0;
    if (comm.rank() == 1) {
      for (int i = 1; i <= 2; ++i) {
        comm.send(std::span{&i, 1}, 0);
        comm.recv(std::span{&second, 1}, 0);
      }
      return;
    }
    Work posted = comm.irecv(std::span{&first, 1}, 1);
    posted.wait();
    comm.send(std::span{&first, 1}, 1);
    CHECK(comm.probe(1).count == 1);
    CHECK(comm.probe(any_source, {.tag = any_tag}).source == 1);
    comm.recv(std::span{&second, 1}, 1);
    CHECK(first == 1);
    CHECK(second == 2);
    comm.send(std::span{&first, 1}, 1);
  });
}

TEST_CASE("a probe that times out fails alone, and the communicator goes on") {
  for (const Kind kind : all_kinds) {
    CAPTURE(std::string{name_of(kind)});
    run_ranks({.ranks = 2, .kind = kind}, [](Communicator& comm) {
      int value = 0;
      if (comm.rank() == 0) {
        for (const int peer : {1, any_source, 0}) {
          ErrorCode code{};
          const std::string what = error_of([&] { comm.probe(peer, {.tag = 4, .timeout = milliseconds{250}}); }, &code);
          CHECK(code == ErrorCode::timeout);
          CHECK_MESSAGE(what.find(peer == any_source ? "probe from any rank (tag 4)" : "probe from rank ") == 0, what);
          CHECK_MESSAGE(what.find("timed out after 0.25 s") != std::string::npos, what);
        }
        comm.barrier();
        CHECK(comm.probe(1, {.tag = 4}).count == 1);
        comm.recv(std::span{&value, 1}, 1, {.tag = 4});
        CHECK(value == 5);
      } else {
        comm.barrier();
        value = 5;
        comm.send(std::span{&value, 1}, 0, {.tag = 4});
      }
    });
  }
}

TEST_CASE("a probe of a rank that has left in good order finds nothing, although credit for it is left over") {
  for (const Kind kind : all_kinds) {
    CAPTURE(std::string{name_of(kind)});
    std::latch left{1};
    run_ranks({.ranks = 3, .kind = kind}, [&](Communicator& comm) {
      std::vector<char> message(60'000);
      constexpr int enough_for_credit = 9;
      if (comm.rank() == 1) {
        for (int i = 0; i < enough_for_credit; ++i) comm.send(message, 0);
        { const Communicator last = std::move(comm); }
        left.count_down();
      } else if (comm.rank() == 0) {
        for (int i = 1; i < enough_for_credit; ++i) comm.recv(message, 1);
        while (!left.try_wait()) (void)comm.iprobe(2);
        comm.recv(message, 1);
        for (int i = 0; i < 100; ++i) CHECK_FALSE(comm.iprobe(1));
        ErrorCode code{};
        error_of([&] { comm.probe(1, {.timeout = milliseconds{50}}); }, &code);
        CHECK(code == ErrorCode::timeout);
        CHECK_FALSE(comm.iprobe(1));
        comm.send(message, 2);
        comm.recv(message, 2);
      } else {
        comm.recv(message, 0);
        comm.send(message, 0);
      }
    });
  }
}

TEST_CASE("a probe ends with what its group fails with") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    CHECK_THROWS_WITH_AS((void)comm.iprobe(2), doctest::Contains("2 is not a rank"), Error);
    if (comm.rank() == 0) comm.abort("enough");
    ErrorCode code{};
    error_of([&] { comm.probe(any_source, {.tag = any_tag}); }, &code);  // rank 0 has said nothing to rank 1 before
    CHECK(code == ErrorCode::aborted);
    try {
      (void)comm.iprobe(any_source);
      FAIL("it throws");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::aborted);
      CHECK(error.details().collective == "probe");
      CHECK(error.details().process == "thread 0");
    }
  });
}

}  // namespace tutti::testing
