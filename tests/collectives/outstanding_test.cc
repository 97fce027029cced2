// A hundred thousand messages, thousands of calls or a thousand communicators at a time, in the worst order: each must
// cost the same, however many there are. Where it does not, the deadline comes.

#include <doctest/doctest.h>

#include <chrono>
#include <numeric>
#include <vector>

#include "tests/support/sample.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

// The first 4000 are eager. A sanitizer takes minutes for a hundred thousand, and finds nothing more.
const int many_messages = only_a_sanitized_sample() ? 10'000 : 100'000;
/// TCP takes longer in the kernel, and fewer messages test the same code.
int many_over(Kind kind) { return kind == Kind::tcp ? many_messages / 5 : many_messages; }

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 1);
  return all;
}

void wait_for_all(std::vector<Work>& works) {
  for (Work& work : works) work.wait();
}

std::span<int> one(std::vector<int>& data, int i) { return std::span{data}.subspan(static_cast<std::size_t>(i), 1); }

TEST_CASE("a hundred thousand receives find their messages, which come in the opposite order") {
  for (const Kind kind : {Kind::shm, Kind::tcp}) {
    run_ranks({.ranks = 2, .kind = kind, .timeout = 20s}, [count = many_over(kind)](Communicator& comm) {
      std::vector<int> data = comm.rank() == 0 ? numbers(count) : std::vector<int>(static_cast<std::size_t>(count));
      std::vector<Work> works;
      if (comm.rank() == 1)
        for (int i = 0; i < count; ++i) works.push_back(comm.irecv(one(data, i), 0, {.tag = i}));
      comm.barrier();
      if (comm.rank() == 0)
        for (int i = count; i-- > 0;) works.push_back(comm.isend(one(data, i), 1, {.tag = i}));
      wait_for_all(works);
      CHECK(data == numbers(count));
    });
  }
}

TEST_CASE("a hundred thousand messages that nobody expects yet find their receives in the opposite order") {
  for (const Kind kind : {Kind::shm, Kind::tcp}) {
    run_ranks({.ranks = 2, .kind = kind, .timeout = 20s}, [count = many_over(kind)](Communicator& comm) {
      std::vector<int> data = comm.rank() == 0 ? numbers(count) : std::vector<int>(static_cast<std::size_t>(count));
      std::vector<Work> works;
      if (comm.rank() == 0) {
        for (int i = 0; i < count; ++i) works.push_back(comm.isend(one(data, i), 1, {.tag = i}));
        comm.send(one(data, 0), 1, {.tag = count});
      } else {
        int last = 0;
        comm.recv(std::span{&last, 1}, 0, {.tag = count});  // all the others have come
        for (int i = count; i-- > 0;) works.push_back(comm.irecv(one(data, i), any_source, {.tag = i}));
      }
      wait_for_all(works);
      CHECK(data == numbers(count));
    });
  }
}

TEST_CASE("thousands of receives that nothing comes for end together when the communicator is aborted") {
  run_ranks({.ranks = 2, .kind = Kind::shm, .timeout = 20s, .leave_together = true}, [](Communicator& comm) {
    const int some = many_messages / 5;
    std::vector<int> data(static_cast<std::size_t>(some));
    std::vector<Work> works;
    for (int i = 0; i < some; ++i)
      works.push_back(comm.irecv(one(data, i), i % 2 ? any_source : 1 - comm.rank(), {.tag = i}));
    if (comm.rank() == 1) comm.abort("enough");
    int aborted = 0;
    for (Work& work : works) {
      ErrorCode code{};
      error_of([&] { work.wait(); }, &code);
      aborted += code == ErrorCode::aborted ? 1 : 0;
    }
    CHECK(aborted == some);
  });
}

TEST_CASE("calls go on at their pace beside a hundred thousand receives that wait") {
  run_ranks({.ranks = 2, .kind = Kind::shm, .timeout = 20s}, [](Communicator& comm) {
    std::vector<int> data(static_cast<std::size_t>(many_messages));
    std::vector<Work> works;
    if (comm.rank() == 1)
      for (int i = 0; i < many_messages; ++i) works.push_back(comm.irecv(one(data, i), 0, {.tag = i}));
    int token = 0;
    for (int round = 0; round < 5000; ++round) {
      if (comm.rank() == 0) comm.send(std::span{&round, 1}, 1, {.tag = many_messages});
      if (comm.rank() == 1) comm.recv(std::span{&token, 1}, 0, {.tag = many_messages});
    }
    if (comm.rank() == 0)
      for (int i = 0; i < many_messages; ++i) comm.send(one(data, i), 1, {.tag = i});
    wait_for_all(works);
  });
}

TEST_CASE("thousands of calls may be on their way for long, until a late rank makes them, too") {
  run_ranks({.ranks = 2, .kind = Kind::shm, .timeout = 20s}, [](Communicator& comm) {
    const int calls = many_messages / 5;
    std::vector<int> data(static_cast<std::size_t>(calls), 1);
    std::vector<Work> works;
    int token = 0;
    if (comm.rank() == 1) comm.recv(std::span{&token, 1}, 0);
    for (int i = 0; i < calls; ++i) works.push_back(comm.async().all_reduce(one(data, i), sum));
    if (comm.rank() == 0) {
      CHECK(!works.back().wait_for(500ms));  // so that all of them take long, and would ask why
      comm.send(std::span{&token, 1}, 1);
    }
    wait_for_all(works);
    CHECK(data == std::vector<int>(data.size(), 2));
  });
}

TEST_CASE("calls of a thousand communicators may be on their way for long, and no rank counts as lost") {
  run_ranks({.ranks = 2, .kind = Kind::shm, .timeout = 60s}, [](Communicator& comm) {
    const int count = only_a_sanitized_sample() ? 300 : 1000;
    std::vector<Communicator> groups;
    for (int i = 0; i < count; ++i) groups.push_back(comm.split(0));
    std::vector<int> data(groups.size(), 1);
    std::vector<Work> works;
    int token = 0;
    if (comm.rank() == 1) comm.recv(std::span{&token, 1}, 0);
    for (int i = 0; i < count; ++i)
      works.push_back(groups[static_cast<std::size_t>(i)].async().all_reduce(one(data, i), sum));
    if (comm.rank() == 0) {
      CHECK(!works.back().wait_for(700ms));  // so that each of them has asked why
      comm.send(std::span{&token, 1}, 1);
    }
    wait_for_all(works);
    CHECK(data == std::vector<int>(data.size(), 2));
  });
}

}  // namespace
}  // namespace tutti::testing
