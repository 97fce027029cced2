// The mismatch matrix: one rank calls something else than the others. Nothing hangs, nothing returns wrong data, and
// every rank hears both calls.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/base/collective_traits.h"
#include "tests/support/sample.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

constexpr int matrix_ranks = 4;

struct Call {
  Collective collective = Collective::all_reduce;
  bool wide = false;  ///< f64 instead of i32
  bool maximum = false;
  std::size_t count = 100;
  int root = 0;
  std::string algorithm = {};
  bool variable = false;
};

template <class T>
void make_typed(Communicator& comm, const Call& call) {
  const auto n = static_cast<std::size_t>(comm.size());
  std::vector<T> one(call.count, T{1});
  std::vector<T> all(call.count * n, T{1});
  std::vector<T> other = one;
  std::vector<T> others = all;
  const Op op = call.maximum ? max : sum;
  const CallOptions plain{.algorithm = call.algorithm};
  const std::vector<std::size_t> counts(n, call.count);
  switch (call.collective) {
    case Collective::all_reduce:
      return comm.all_reduce(one, other, op, plain);
    case Collective::reduce:
      return comm.reduce(one, other, op, call.root, plain);
    case Collective::broadcast:
      return comm.broadcast(one, call.root, plain);
    case Collective::all_gather:
      return call.variable ? comm.all_gather_v(one, all, counts, plain) : comm.all_gather(one, all, plain);
    case Collective::gather:
      return call.variable ? comm.gather_v(one, all, counts, call.root, plain)
                           : comm.gather(one, all, call.root, plain);
    case Collective::scatter:
      return call.variable ? comm.scatter_v(all, counts, one, call.root, plain)
                           : comm.scatter(all, one, call.root, plain);
    case Collective::reduce_scatter:
      return call.variable ? comm.reduce_scatter_v(all, one, counts, op, plain)
                           : comm.reduce_scatter(all, one, op, plain);
    case Collective::all_to_all:
      return call.variable ? comm.all_to_all_v(all, counts, others, counts, plain)
                           : comm.all_to_all(all, others, plain);
    case Collective::barrier:
      return comm.barrier(plain);
    case Collective::scan:
      return comm.scan(one, other, op, plain);
    case Collective::exclusive_scan:
      return comm.exclusive_scan(one, other, op, plain);
  }
}

void make(Communicator& comm, const Call& call) {
  if (call.wide) return make_typed<double>(comm, call);
  make_typed<int>(comm, call);
}

struct Case {
  const char* what;
  Call usual;
  Call odd;
  int rank;  ///< who makes the odd call
  Kind kind;
};

/// Every argument of every collective, differing at the first and the last rank, over every way to talk.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int which = 0; which < collective_count; ++which) {
    const auto collective = static_cast<Collective>(which);
    for (const bool variable : {false, true}) {
      if (variable && !detail::traits_of(collective).has_parts()) continue;
      for (const int rank : {0, matrix_ranks - 1})
        for (const Kind kind : {Kind::shm, Kind::tcp, Kind::mixed}) {
          const auto add = [&](const char* what, auto&& change) {
            Call usual{.collective = collective, .variable = variable};
            Call odd = usual;
            change(odd);
            cases.push_back({what, usual, odd, rank, kind});
          };
          add("collective", [&](Call& odd) {
            odd.variable = false;
            odd.collective = collective == Collective::all_reduce ? Collective::barrier : Collective::all_reduce;
          });
          if (collective == Collective::barrier) continue;
          add("type", [](Call& odd) { odd.wide = true; });
          add("more elements", [](Call& odd) { odd.count = 101; });
          if (collective == Collective::scatter || collective == Collective::gather)  // over links instead of a board
            add("far more elements", [](Call& odd) { odd.count = 100'000; });
          add("no elements", [](Call& odd) { odd.count = 0; });
          if (detail::is_reduction(collective)) add("op", [](Call& odd) { odd.maximum = true; });
          if (detail::is_rooted(collective)) add("root", [](Call& odd) { odd.root = 1; });
          if (collective != Collective::all_reduce && collective != Collective::reduce) continue;
          const auto add_in_row = [&](const char* what, auto&& change) {
            add(what, change);
            Case& one = cases.back();
            one.usual = {.collective = collective, .count = 40'000, .algorithm = "chain"};
            one.odd = one.usual;
            change(one.odd);
          };
          add_in_row("elements in a row", [](Call& odd) { odd.count = 40'001; });
          add_in_row("few elements, in a row", [](Call& odd) { odd.count = 1; });
          add_in_row("op in a row", [](Call& odd) { odd.maximum = true; });
          add_in_row("collective, in a row", [](Call& odd) { odd = {.collective = Collective::barrier}; });
        }
    }
  }
  return cases;
}

struct Outcome {
  ErrorCode code{};
  std::string text;
};

/// What every rank hears: of the call itself, or of one of the next, for those who were done with it.
std::vector<Outcome> outcomes(const Case& one) {
  std::vector<Outcome> heard(matrix_ranks);
  run_ranks({.ranks = matrix_ranks, .kind = one.kind, .timeout = 20s, .leave_together = true}, [&](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    heard[rank].text = error_of(
        [&] {
          make(comm, comm.rank() == one.rank ? one.odd : one.usual);
          for (int i = 0; i < 3; ++i) comm.barrier();
        },
        &heard[rank].code);
  });
  return heard;
}

TEST_CASE("a rank that calls something else is named on every rank, whatever differs") {
  std::vector<Case> cases = all_cases();
  CHECK(cases.size() > 150);
  Lot lot{1, 12};
  std::erase_if(cases, [&](const Case&) { return !lot.draws(); });
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::vector<std::string> wrong;
  const auto work = [&] {
    for (std::size_t i = next++; i < cases.size(); i = next++) {
      const Case& one = cases[i];
      const auto begin = std::chrono::steady_clock::now();
      std::vector<Outcome> heard;
      try {
        heard = outcomes(one);
      } catch (const std::exception& failure) {
        heard = {{{}, failure.what()}};
      }
      const bool slow = std::chrono::steady_clock::now() - begin > 10s;
      for (std::size_t rank = 0; rank < heard.size(); ++rank) {
        const std::string& text = heard[rank].text;
        const auto says = [&text](const char* words) { return text.find(words) != std::string::npos; };
        const bool quotes_both = (says(" called ") && says(" while ")) || (says(" gave ") && says(", but rank "));
        if (heard[rank].code == ErrorCode::mismatch && quotes_both && !slow) continue;
        const std::lock_guard lock{mutex};
        wrong.push_back(fmt::format("{} of {}{} differs on rank {}, over {}: rank {} heard \"{}\"{}", one.what,
                                    name_of(one.usual.collective), one.usual.variable ? "_v" : "", one.rank,
                                    name_of(one.kind), rank, text, slow ? ", late" : ""));
      }
    }
  };
  std::vector<std::thread> workers;
  for (int i = 0; i < 6; ++i) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  fmt::print("{} mismatches\n", cases.size());
  for (const std::string& one : wrong) FAIL_CHECK(one);
}

TEST_CASE("all ranks are told of the same rank, whoever compares its call with whose first") {
  for (const Kind kind : {Kind::tcp, Kind::shm}) {
    for (int odd = 0; odd < matrix_ranks; ++odd) {
      std::vector<int> named(static_cast<std::size_t>(matrix_ranks), -1);
      run_ranks({.ranks = matrix_ranks, .kind = kind, .timeout = 20s, .leave_together = true}, [&](Communicator& comm) {
        std::vector<float> data(comm.rank() == odd ? 11 : 10);
        try {
          comm.all_reduce(data, sum);
          for (int i = 0; i < 3; ++i) comm.barrier();
        } catch (const Error& error) {
          named[static_cast<std::size_t>(comm.rank())] = error.rank();
        }
      });
      CAPTURE(odd);
      CAPTURE(std::string{name_of(kind)});
      CHECK(named[0] >= 0);
      CHECK(std::ranges::count(named, named[0]) == matrix_ranks);
    }
  }
}

TEST_CASE("calls that pass although they differ are noticed by the next one") {
  for (const Kind kind : {Kind::tcp, Kind::shm}) {
    run_ranks({.ranks = 2, .kind = kind, .timeout = 20s, .leave_together = true}, [&](Communicator& comm) {
      const std::vector<std::size_t> none(2, 0);
      std::vector<float> floats;
      std::vector<double> doubles;
      ErrorCode code{};
      const std::string text = error_of(
          [&] {
            if (comm.rank() == 0) comm.all_to_all_v(floats, none, floats, none);
            if (comm.rank() == 1) comm.all_to_all_v(doubles, none, doubles, none);
            comm.barrier();
            comm.barrier();
          },
          &code);
      CAPTURE(text);
      CHECK(code == ErrorCode::mismatch);
      if (kind == Kind::shm) {  // where posts tell what it was
        CHECK(text.find("all_to_all_v #1 (f64)") != std::string::npos);
        CHECK(text.find("all_to_all_v #1 (f32)") != std::string::npos);
      } else {
        CHECK(text.find("their earlier calls differ: the last one here was all_to_all_v #1 (f") != std::string::npos);
      }
    });
  }
}

TEST_CASE("ranks with different algorithms are told both names") {
  for (const Kind kind : {Kind::tcp, Kind::shm, Kind::inproc}) {
    run_ranks({.ranks = 2, .kind = kind, .timeout = 20s, .leave_together = true}, [&](Communicator& comm) {
      std::vector<float> data(1000);
      ErrorCode code{};
      const std::string text =
          error_of([&] { comm.all_reduce(data, sum, {.algorithm = comm.rank() == 0 ? "ring" : "doubling"}); }, &code);
      CAPTURE(text);
      CHECK(code == ErrorCode::mismatch);
      const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
      if (kind == Kind::inproc) {  // there is no coordinator
        const bool named =
            says("there with doubling and here with ring") || says("there with ring and here with doubling");
        CHECK(named);
      } else {
        CHECK(says("rank 1 ("));
        CHECK(says(") called all_reduce #1 (1000 x f32, sum) with doubling while rank 0 ("));
        CHECK(says(") called all_reduce #1 (1000 x f32, sum) with ring: give all ranks the same tuning table"));
      }
    });
  }
}

}  // namespace
}  // namespace tutti::testing
