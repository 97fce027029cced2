// Programs in which ranks send before they receive. No send of an eager message may wait for its receive as long as
// less than a mebibyte of its sender's messages waits at the receiver, whenever credit for earlier ones comes.

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <latch>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

constexpr int allowed = 15;  // messages of that length, besides what is counted for each: less than a mebibyte

TEST_CASE("two ranks that both send before they receive never wait for each other") {
  constexpr int groups = 30;  // each has new connections, whose first credit is the latest
  constexpr int rounds = 3 * allowed;
  for (const Kind kind : all_kinds) {
    CAPTURE(std::string{name_of(kind)});
    run_ranks({.ranks = 2, .kind = kind, .timeout = 10s}, [](Communicator& world) {
      std::vector<std::uint8_t> out(eager_limit), in(eager_limit);
      for (int group = 0; group < groups; ++group) {
        Communicator comm = world.split(0);
        for (int round = 0; round < rounds; ++round) {
          out.front() = static_cast<std::uint8_t>(round + comm.rank());
          out.back() = static_cast<std::uint8_t>(out.front() + 100);
          comm.send(out, 1 - comm.rank());
          comm.recv(in, 1 - comm.rank());
          REQUIRE(in.front() == static_cast<std::uint8_t>(round + 1 - comm.rank()));
          REQUIRE(in.back() == static_cast<std::uint8_t>(in.front() + 100));
        }
      }
    });
  }
}

TEST_CASE("a send does not wait for credit that its receiver has not returned yet") {
  constexpr int first = 3;  // messages that are received: too few for credit
  for (const Kind kind : all_kinds) {
    CAPTURE(std::string{name_of(kind)});
    run_ranks({.ranks = 2, .kind = kind, .timeout = 10s}, [](Communicator& comm) {
      std::vector<int> data(eager_limit / sizeof(int)), token(1);
      if (comm.rank() == 0) {
        for (int i = 0; i < first + allowed; ++i) {
          std::iota(data.begin(), data.end(), i);
          comm.send(data, 1, {.tag = i < first ? 1 : 2 + i % 2});
          if (i == first - 1) comm.recv(token, 1, {.tag = 4});
        }
        comm.send(token, 1, {.tag = 5});
        return;
      }
      const auto receive = [&](int i, int tag) {
        const MessageStatus status = comm.recv(data, 0, {.tag = tag});
        CHECK(status.count == data.size());
        CHECK(status.tag == (i < first ? 1 : 2 + i % 2));
        CHECK(data.front() == i);
        CHECK(data.back() == i + static_cast<int>(data.size()) - 1);
      };
      for (int i = 0; i < first; ++i) receive(i, 1);
      comm.send(token, 0, {.tag = 4});
      comm.recv(token, 0, {.tag = 5});  // behind which all others have come
      CHECK(comm.probe(0, {.tag = any_tag}).tag == 2 + first % 2);
      for (int i = first; i < first + allowed; ++i) receive(i, any_tag);
    });
  }
}

TEST_CASE("there is room for the messages that the headers promise although the receiver makes no call") {
  constexpr std::size_t small = 16 * 1024;
  for (const Kind kind : {Kind::inproc, Kind::shm, Kind::tcp}) {
    CAPTURE(std::string{name_of(kind)});
    const std::size_t room = kind == Kind::tcp ? 1024 * 1024 / (small + 256) : 8;
    std::latch sent{1};
    run_ranks({.ranks = 2, .kind = kind, .timeout = 10s}, [&](Communicator& comm) {
      std::vector<std::byte> data(small);
      comm.barrier();
      if (comm.rank() == 0) {
        const std::shared_ptr<void> wake{nullptr, [&](void*) { sent.count_down(); }};  // also if a send fails
        for (std::size_t i = 0; i < room; ++i) comm.send(data, 1);
      } else {
        sent.wait();
        for (std::size_t i = 0; i < room; ++i) comm.recv(data, 0);
      }
    });
  }
}

TEST_CASE("a sender waits while a mebibyte of its messages waits at the receiver") {
  constexpr std::size_t counted = eager_limit + 256;
  constexpr int received = 3;                                                         // too few for credit
  constexpr int waiting = allowed - received;                                         // that are sent by credit
  constexpr std::size_t filler = std::size_t{1024} * 1024 - allowed * counted - 256;  // uses up the rest of it
  constexpr int granted = 2;                                                          // sent without credit
  for (const Kind kind : all_kinds) {
    CAPTURE(std::string{name_of(kind)});
    run_ranks({.ranks = 2, .kind = kind, .timeout = 10s}, [](Communicator& comm) {
      std::vector<std::byte> data(eager_limit), token(1);
      const auto part = std::span(data).first(filler);
      if (comm.rank() == 0) {
        for (int i = 0; i < received; ++i) comm.send(data, 1, {.tag = 1});
        comm.recv(token, 1, {.tag = 2});
        for (int i = 0; i < waiting; ++i) comm.send(data, 1, {.tag = 1});
        comm.send(part, 1, {.tag = 1});
        // None of the following has credit. There is room for as many bytes as have been received.
        for (int i = 0; i < granted; ++i) comm.send(data, 1, {.tag = 1});
        comm.send(token, 1, {.tag = 3});
        Work one_more = comm.isend(data, 1, {.tag = 1});
        comm.send(token, 1, {.tag = 4});
        comm.recv(token, 1, {.tag = 5});  // whose sender has seen all of that
        CHECK_FALSE(one_more.done());
        comm.send(token, 1, {.tag = 6});
        one_more.wait();
      } else {
        for (int i = 0; i < received; ++i) comm.recv(data, 0, {.tag = 1});
        comm.send(token, 0, {.tag = 2});
        comm.recv(token, 0, {.tag = 4});
        comm.send(token, 0, {.tag = 5});
        comm.recv(token, 0, {.tag = 6});
        for (int i = 0; i < waiting; ++i) comm.recv(data, 0, {.tag = 1});
        comm.recv(part, 0, {.tag = 1});
        for (int i = 0; i <= granted; ++i) comm.recv(data, 0, {.tag = 1});
        comm.recv(token, 0, {.tag = 3});
      }
    });
  }
}

}  // namespace
}  // namespace tutti::testing
