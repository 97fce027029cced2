// Work and Persistent answer to the same questions, alone and several together.

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/world.h"

namespace tutti::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("wait_all returns when everything is done, whatever the kind of handle") {
  run_ranks({.ranks = 3}, [](Communicator& comm) {
    std::vector<std::vector<int>> data(5, std::vector<int>(1000, comm.rank()));
    std::vector<Work> works;
    for (auto& one : data) works.push_back(comm.async().all_reduce(one, sum));
    wait_all(works);
    for (const auto& one : data) CHECK(one == std::vector<int>(1000, 3));
    for (const Work& work : works) CHECK(work.done());

    Persistent calls[] = {comm.prepare().all_reduce(data[0], max), comm.prepare().all_reduce(data[1], sum)};
    for (int start = 0; start < 3; ++start) {
      for (Persistent& call : calls) call.start();
      wait_all(calls);
    }
    CHECK(data[1] == std::vector<int>(1000, 81));
    wait_all(std::vector<Work>(2));
  });
}

TEST_CASE("wait_all throws the first failure, when all have ended") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    int large[2] = {1, 2}, small = 0, other = 0;
    if (comm.rank() == 1) {
      comm.send(large, 0, {.tag = 1});
      comm.barrier();
      comm.send(std::span{large, 1}, 0, {.tag = 2});
      return;
    }
    std::vector<Work> works;
    works.push_back(comm.irecv(std::span{&small, 1}, 1, {.tag = 1}));
    works.push_back(comm.irecv(std::span{&other, 1}, 1, {.tag = 2}));
    CHECK(wait_any(works) == 0);
    CHECK_FALSE(works[1].done());
    REQUIRE(works[0].error());
    CHECK(works[0].error()->code() == ErrorCode::truncated);
    comm.barrier();
    CHECK_THROWS_AS(wait_all(works), Error);
    CHECK(works[1].done());
    CHECK(other == 1);
  });
}

TEST_CASE("wait_any returns the one that is done, in whatever order they end") {
  for (const Kind kind : all_kinds) {
    CAPTURE(std::string{name_of(kind)});
    run_ranks({.ranks = 2, .kind = kind}, [](Communicator& comm) {
      constexpr int count = 6;
      std::vector<int> values(count, -1);
      std::vector<int> tags(count);
      for (int i = 0; i < count; ++i) tags[static_cast<std::size_t>(i)] = i;
      if (comm.rank() == 1) {
        for (int i = count; i-- > 0;) {
          comm.send(std::span{&i, 1}, 0, {.tag = i});
          comm.recv(std::span{&values[0], 1}, 0);  // the other one has seen it
        }
        return;
      }
      std::vector<Work> works;
      for (int i = 0; i < count; ++i)
        works.push_back(comm.irecv(std::span{&values[static_cast<std::size_t>(i)], 1}, 1, {.tag = i}));
      for (int i = count; i-- > 0;) {
        const std::size_t found = wait_any(works);
        CHECK(tags[found] == i);
        CHECK(works[found].status().tag == i);
        works.erase(works.begin() + static_cast<std::ptrdiff_t>(found));
        tags.erase(tags.begin() + static_cast<std::ptrdiff_t>(found));
        comm.send(std::span{&i, 1}, 1);
      }
      for (int i = 0; i < count; ++i) CHECK(values[static_cast<std::size_t>(i)] == i);
    });
  }
}

TEST_CASE("wait_any sleeps while another thread drives, and wakes for what that one finishes") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    int first = 0, second = 0, last = 0;
    if (comm.rank() == 1) {
      comm.recv(std::span{&first, 1}, 0);
      comm.send(std::span{&first, 1}, 0, {.tag = 2});
      comm.recv(std::span{&first, 1}, 0);
      comm.send(std::span{&first, 1}, 0, {.tag = 1});
      comm.send(std::span{&first, 1}, 0, {.tag = 3});
      return;
    }
    std::vector<Work> works;
    works.push_back(comm.irecv(std::span{&first, 1}, 1, {.tag = 1}));
    works.push_back(comm.irecv(std::span{&second, 1}, 1, {.tag = 2}));
    std::thread driver{[work = comm.irecv(std::span{&last, 1}, 1, {.tag = 3})]() mutable { work.wait(); }};
    const int token = 7;
    comm.send(std::span{&token, 1}, 1);
    CHECK(wait_any(works) == 1);
    comm.send(std::span{&token, 1}, 1);
    driver.join();
    wait_all(works);
    CHECK(first + second + last == 21);
  });
}

TEST_CASE("wait_any refuses what it cannot wait for") {
  CHECK_THROWS_WITH_AS((void)wait_any(std::vector<Work>{}), doctest::Contains("nothing"), Error);
  CHECK(wait_any(std::vector<Work>(1)) == 0);
  std::atomic<Handle*> others{nullptr};
  std::atomic<bool> done{false};
  run_ranks({.ranks = 2}, [&](Communicator& comm) {
    int value = 0;
    std::vector<Work> works;
    works.push_back(comm.irecv(std::span{&value, 1}, comm.rank()));
    if (comm.rank() == 1) {
      others = works.data();
      while (!done) std::this_thread::yield();
    } else {
      while (!others) std::this_thread::yield();
      Handle* const both[] = {works.data(), others};
      CHECK_THROWS_WITH_AS((void)detail::wait_any(both), doctest::Contains("different calls of connect()"), Error);
      done = true;
    }
    const int token = 1;
    comm.send(std::span{&token, 1}, comm.rank());
    works[0].wait();
  });
}

TEST_CASE("a prepared call answers as a Work does") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    std::vector<int> data(10'000, 1);
    Persistent call = comm.prepare().all_reduce(data, sum, {.algorithm = "ring"});
    CHECK(call.done());
    CHECK(call.wait_for(milliseconds{0}));
    CHECK(call.error() == nullptr);
    int token = 0;
    if (comm.rank() == 1) comm.recv(std::span{&token, 1}, 0);
    call.start();
    CHECK_THROWS_AS(call.start(), Error);
    std::atomic<int> seen{0};
    call.then([&](const Error* error) { seen = error ? -1 : 1; });
    if (comm.rank() == 0) {
      CHECK_FALSE(call.wait_for(milliseconds{1}));
      CHECK_FALSE(call.done());
      CHECK_THROWS_AS(call.start(), Error);
      CHECK(seen == 0);
      comm.send(std::span{&token, 1}, 1);
    }
    CHECK(call.wait_for(seconds{60}));
    CHECK(seen == 1);
    call.start();  // waited for
    call.wait();
    CHECK(data == std::vector<int>(10'000, 4));
  });
}

TEST_CASE("a prepared call that fails says so until it is started again") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    std::vector<int> data(10, 1);
    Persistent call = comm.prepare().all_reduce(data, sum);
    comm.barrier();
    if (comm.rank() == 1) return comm.abort("enough");
    call.start();
    CHECK_THROWS_AS(call.wait(), Error);
    REQUIRE(call.error());
    CHECK(call.error()->code() == ErrorCode::aborted);
    CHECK_THROWS_AS(call.wait(), Error);
    Persistent moved = std::move(call);
    CHECK(call.error() == nullptr);
    CHECK(call.done());
    CHECK(moved.error());
  });
}

}  // namespace tutti::testing
