// Persistent calls do what the ordinary ones do, any number of times, beside them, and fail as they do.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "tests/support/sample.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

constexpr int starts = 20;

/// Nothing: it throws none.
std::optional<ErrorCode> code_of(const std::function<void()>& call) {
  ErrorCode code{};
  return error_of(call, &code).empty() ? std::nullopt : std::optional{code};
}

/// Different on every rank and at every start.
std::vector<int> filled(std::size_t count, int rank, int start) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 1000 * rank + 7 * start);
  return values;
}

/// In its own memory, to which calls are bound.
void fill(std::vector<int>& values, int rank, int start) {
  std::ranges::copy(filled(values.size(), rank, start), values.begin());
}

/// Starts `call` again and again with new input, as start() and wait() or run() in turn, and compares its output with
/// that of `ordinary` on a copy.
template <class Ordinary>
void compare(Communicator& comm, Persistent& call, std::vector<int>& in, std::vector<int>& out, Ordinary ordinary) {
  for (int start = 0; start < starts; ++start) {
    fill(in, comm.rank(), start);
    std::fill(out.begin(), out.end(), -1);
    std::vector<int> expected = out;
    ordinary(std::vector<int>{in}, expected);
    if (start % 2 == 0) {
      call.start();
      call.wait();
    } else {
      call.run();
    }
    CHECK(call.done());
    CHECK(out == expected);
  }
}

void check_all(Communicator& comm, std::size_t count) {
  const std::size_t many = count * usual_ranks;
  std::vector<int> in(count), out(count), long_in(many), long_out(many), none;
  using Ints = std::vector<int>;
  auto all_reduce = comm.prepare().all_reduce(in, out, sum);
  compare(comm, all_reduce, in, out, [&](const Ints& a, Ints& b) { comm.all_reduce(a, b, sum); });
  auto all_gather = comm.prepare().all_gather(in, long_out);
  compare(comm, all_gather, in, long_out, [&](const Ints& a, Ints& b) { comm.all_gather(a, b); });
  auto reduce_scatter = comm.prepare().reduce_scatter(long_in, out, max);
  compare(comm, reduce_scatter, long_in, out, [&](const Ints& a, Ints& b) { comm.reduce_scatter(a, b, max); });
  auto all_to_all = comm.prepare().all_to_all(long_in, long_out);
  compare(comm, all_to_all, long_in, long_out, [&](const Ints& a, Ints& b) { comm.all_to_all(a, b); });
  auto reduce = comm.prepare().reduce(in, out, sum, 1);
  compare(comm, reduce, in, out, [&](const Ints& a, Ints& b) { comm.reduce(a, b, sum, 1); });
  auto scatter = comm.prepare().scatter(long_in, out, 2);
  compare(comm, scatter, long_in, out, [&](const Ints& a, Ints& b) { comm.scatter(a, b, 2); });
  auto gather = comm.prepare().gather(in, long_out, 1);
  compare(comm, gather, in, long_out, [&](const Ints& a, Ints& b) { comm.gather(a, b, 1); });

  auto broadcast = comm.prepare().broadcast(out, 2);
  auto in_place = comm.prepare().all_reduce(in, sum);
  auto exchanged = comm.prepare().all_to_all(long_in, long_in);
  auto barrier = comm.prepare().barrier();
  for (int start = 0; start < starts; ++start) {
    fill(out, comm.rank(), start);
    broadcast.run();
    CHECK(out == filled(count, 2, start));
    fill(in, comm.rank(), start);
    Ints expected = in;
    comm.all_reduce(expected, sum);
    in_place.run();
    CHECK(in == expected);
    fill(long_in, comm.rank(), start);
    Ints parts(many);
    comm.all_to_all(Ints{long_in}, parts);
    exchanged.run();
    CHECK(long_in == parts);
    barrier.run();
  }
}

}  // namespace

TEST_CASE("persistent calls do what ordinary ones do, at every start") {
  Lot lot{1, 6};
  for (const Kind kind : {Kind::inproc, Kind::shm, Kind::tcp}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{257}, std::size_t{40'000}}) {
      if (!lot.draws()) continue;
      CAPTURE(count);
      run_ranks({.ranks = usual_ranks, .kind = kind}, [count](Communicator& comm) { check_all(comm, count); });
    }
  }
}

TEST_CASE("contributions are multiplied anew at every start") {
  for (const std::size_t count : {std::size_t{4}, std::size_t{40'000}}) {
    run_ranks({.ranks = 2, .kind = Kind::shm}, [count](Communicator& comm) {
      std::vector<float> in(count), out(count);
      auto call = comm.prepare().all_reduce(in, out, premul_sum(2.0));
      for (int start = 1; start <= starts; ++start) {
        std::fill(in.begin(), in.end(), static_cast<float>(start));
        call.run();
        CHECK(out == std::vector<float>(count, static_cast<float>(4 * start)));
      }
    });
  }
}

TEST_CASE("several are on their way at once, between ordinary calls, and one rank need not prepare") {
  for (const Kind kind : {Kind::inproc, Kind::shm, Kind::tcp}) {
    run_ranks({.ranks = usual_ranks, .kind = kind}, [](Communicator& comm) {
      std::vector<int> small(1), large(100'000);
      std::optional<Persistent> first, second;
      if (comm.rank() != 0) {
        first = comm.prepare().all_reduce(small, sum);
        second = comm.prepare().all_reduce(large, sum);
      }
      for (int start = 0; start < starts; ++start) {
        small.assign(1, comm.rank());
        large.assign(large.size(), start);
        int between = 1;
        if (comm.rank() == 0) {
          Work one = comm.async().all_reduce(small, sum);
          Work two = comm.async().all_reduce(large, sum);
          comm.all_reduce(std::span{&between, 1}, sum);
          two.wait();
          one.wait();
        } else {
          first->start();
          second->start();
          comm.all_reduce(std::span{&between, 1}, sum);
          second->wait();
          first->wait();
        }
        CHECK(small[0] == 3);
        CHECK(large == std::vector<int>(large.size(), 3 * start));
        CHECK(between == usual_ranks);
      }
    });
  }
}

TEST_CASE("a persistent call ends by itself, and wait() without a start returns") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    std::vector<int> data(50'000, 1);
    auto call = comm.prepare().all_reduce(data, sum);
    CHECK(call.done());
    call.wait();
    call.start();
    while (!call.done()) continue;  // bounded by the call's timeout and the test's watchdog
    call.wait();
    call.wait();
    CHECK(data == std::vector<int>(50'000, 2));
  });
}

TEST_CASE("starting twice is refused, and nothing is sent") {
  for (const std::size_t count : {std::size_t{1}, std::size_t{50'000}}) {
    run_ranks({.ranks = 2, .kind = Kind::shm}, [count](Communicator& comm) {
      std::vector<int> data(count, 1);
      auto call = comm.prepare().all_reduce(data, sum);
      call.start();
      ErrorCode code{};
      CHECK(error_of([&] { call.start(); }, &code).find("started again before wait()") != std::string::npos);
      CHECK(code == ErrorCode::invalid_argument);
      call.wait();
      comm.barrier();
      CHECK(data == std::vector<int>(count, 2));
    });
  }
}

TEST_CASE("a wrong call is refused when it is prepared") {
  run_ranks({.ranks = 2, .kind = Kind::inproc}, [](Communicator& comm) {
    std::vector<int> three(3), four(4);
    CHECK(code_of([&] { (void)comm.prepare().all_reduce(three, four, sum); }) == ErrorCode::invalid_argument);
    CHECK(code_of([&] { (void)comm.prepare().broadcast(three, 2); }) == ErrorCode::invalid_argument);
    CHECK_THROWS_AS((void)comm.prepare().all_reduce(three, sum, {.algorithm = "no such"}), Error);
    comm.barrier();
  });
}

TEST_CASE("a rank that starts another call is named by wait()") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    std::vector<int> data(comm.rank() == 0 ? 3 : 4);
    auto call = comm.prepare().all_reduce(data, sum);
    CHECK(code_of([&] { call.run(); }) == ErrorCode::mismatch);
    CHECK(code_of([&] { call.run(); }) == ErrorCode::mismatch);  // the communicator has failed
  });
}

TEST_CASE("moved, outliving its communicator, and destroyed while started") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    std::vector<int> data(50'000, 1), tiny(1, 1);
    {
      auto pair = comm.subgroup({0, 1});
      std::optional<Persistent> kept;
      {
        auto call = pair.prepare().all_reduce(tiny, sum);
        kept = std::move(call);
      }
      { const Communicator gone = std::move(pair); }
      kept->run();
      CHECK(tiny[0] == 2);
    }
    {
      auto call = comm.prepare().all_reduce(data, sum);
      call.start();
    }
    std::vector<int> after(data.size(), 1);
    comm.all_reduce(after, sum);  // over the same links, on which the first call's messages are before its own
    CHECK(data == after);
  });
}

}  // namespace tutti::testing
