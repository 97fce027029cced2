#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/wait_hook.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

TEST_CASE("several operations are in flight at once and end in any order of waiting") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 4, .kind = kind}, [](Communicator& comm) {
      constexpr std::size_t operations = 12;
      std::vector<std::vector<int>> data(operations);
      std::vector<Work> works;
      for (std::size_t i = 0; i < operations; ++i) {
        data[i].assign(i * 5000, comm.rank() + static_cast<int>(i));
        works.push_back(comm.async().all_reduce(data[i], sum));
      }
      for (std::size_t i = operations; i-- > 0;) works[i].wait();
      for (std::size_t i = 0; i < operations; ++i)
        for (const int value : data[i]) CHECK(value == 6 + 4 * static_cast<int>(i));
    });
  }
}

TEST_CASE("a call of one rank alone is over when it returns, however long") {
  run_ranks({.ranks = 1, .kind = Kind::shm}, [](Communicator& comm) {
    const std::vector<int> in(300'000, 7);
    std::vector<int> out(in.size());
    const Work copied = comm.async().all_gather(in, out);
    CHECK(copied.done());
    CHECK(out == in);
  });
}

TEST_CASE("different collectives overlap on the same links") {
  run_ranks({.ranks = 5, .kind = Kind::shm}, [](Communicator& comm) {
    const int n = comm.size();
    std::vector<int> reduced(70'000, 1);
    std::vector<int> gathered(static_cast<std::size_t>(n) * 30'000);
    const std::vector<int> mine(30'000, comm.rank());
    std::vector<int> copied(100'000, comm.rank() == 3 ? 9 : 0);
    Work a = comm.async().all_reduce(reduced, sum, {.algorithm = "ring"});
    Work b = comm.async().all_gather(mine, gathered, {.algorithm = "bruck"});
    Work c = comm.async().broadcast(copied, 3, {.algorithm = "chain*8"});
    comm.barrier();
    c.wait();
    b.wait();
    a.wait();
    CHECK(reduced.back() == n);
    for (int rank = 0; rank < n; ++rank) CHECK(gathered[static_cast<std::size_t>(rank) * 30'000 + 7] == rank);
    CHECK(copied.back() == 9);
  });
}

TEST_CASE("a Work turns done by itself, with nobody waiting") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 3, .kind = kind}, [](Communicator& comm) {
      std::vector<double> data(200'000, 1.0);
      std::promise<void> finished;
      Work work = comm.async().all_reduce(data, sum);
      work.then([&](const Error* error) {
        CHECK(error == nullptr);
        finished.set_value();
      });
      REQUIRE(finished.get_future().wait_for(20s) == std::future_status::ready);
      CHECK(work.done());
      CHECK(data.front() == 3.0);
    });
  }
}

TEST_CASE("a continuation runs exactly once, also when it is added after the end, and may start more work") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    std::atomic<int> calls{0};
    std::vector<int> first(10, 1);
    std::vector<int> second(10, 2);
    std::promise<void> all_done;
    Work next;
    Work work = comm.async().all_reduce(first, sum);
    work.then([&](const Error*) {
      ++calls;
      next = comm.async().all_reduce(second, sum);
      next.then([&](const Error*) { all_done.set_value(); });
    });
    REQUIRE(all_done.get_future().wait_for(20s) == std::future_status::ready);
    work.then([&](const Error*) { ++calls; });
    CHECK(calls == 2);
    CHECK(second[9] == 4);
  });
}

TEST_CASE("the last owner of a communicator may be a function given to then()") {
  for (const Kind kind : all_kinds) {
    CAPTURE(std::string{name_of(kind)});
    run_ranks({.ranks = 2, .kind = kind}, [](Communicator& comm) {
      int token = 0;
      for (int turn = 0; turn < 20; ++turn) {
        std::vector<int> data(1000, 1);
        auto part = std::make_shared<Communicator>(comm.split(0));
        if (comm.rank() == 0) {
          Work work = part->async().all_reduce(data, sum);
          work.then([last = std::move(part)](const Error*) {});
          comm.send(std::span{&token, 1}, 1);
          work.wait();
        } else {
          comm.recv(std::span{&token, 1}, 0);
          part->all_reduce(data, sum);
        }
        CHECK(data.back() == 2);
      }
      comm.barrier();
    });
  }
}

TEST_CASE("a call that would wait for the function given to then() that makes it is refused, and others are not") {
  for (const Kind kind : all_kinds) {
    CAPTURE(std::string{name_of(kind)});
    run_ranks({.ranks = 2, .kind = kind}, [](Communicator& comm) {
      std::vector<int> data(1000, 1);
      int token = 0;
      int other = 0;
      if (comm.rank() == 0) {
        std::vector<ErrorCode> codes;
        std::vector<Work> started;
        std::promise<void> returned;
        Work late = comm.irecv(std::span{&other, 1}, 1, {.tag = 7});
        Work work = comm.async().all_reduce(data, sum);
        work.then([&](const Error*) {
          const std::vector<std::function<void()>> calls = {
              [&] { comm.barrier(); },       [&] { comm.recv(std::span{&other, 1}, 1, {.tag = 8}); },
              [&] { (void)comm.iprobe(1); }, [&] { (void)comm.subgroup({0, 1}); },
              [&] { late.wait(); },
          };
          for (const auto& call : calls) {
            ErrorCode code{};
            error_of(call, &code);
            codes.push_back(code);
          }
          CHECK_FALSE(late.wait_for(0ns));
          started.push_back(comm.isend(std::span{&token, 1}, 1, {.tag = 9}));
          returned.set_value();
        });
        comm.send(std::span{&token, 1}, 1);
        work.wait();
        REQUIRE(returned.get_future().wait_for(20s) == std::future_status::ready);
        late.wait();
        started.at(0).wait();
        CHECK(codes == std::vector<ErrorCode>(5, ErrorCode::invalid_argument));
      } else {
        comm.recv(std::span{&token, 1}, 0);
        comm.all_reduce(data, sum);
        comm.recv(std::span{&token, 1}, 0, {.tag = 9});
        comm.send(std::span{&token, 1}, 0, {.tag = 7});
      }
      comm.subgroup({0, 1}).barrier();  // a call that was refused does not count
      comm.barrier();
    });
  }
}

TEST_CASE("another thread may wait for a Work while its maker does something else") {
  run_ranks({.ranks = 4, .kind = Kind::shm}, [](Communicator& comm) {
    for (int round = 0; round < 20; ++round) {
      std::vector<int> data(1000, 1);
      Work work = comm.async().all_reduce(data, sum);
      std::thread waiter{[&] { work.wait(); }};
      waiter.join();
      CHECK(data[999] == 4);
    }
  });
}

TEST_CASE("a dropped Work goes on, and the buffer is right after a barrier") {
  run_ranks({.ranks = 4}, [](Communicator& comm) {
    std::vector<int> data(50'000, 1);
    { const Work dropped = comm.async().all_reduce(data, sum); }
    comm.all_reduce(std::vector<int>(1), sum);
    std::vector<int> nothing;
    Work last = comm.async().all_reduce(nothing, sum);
    last.wait();
    comm.barrier();
    CHECK(data[49'999] == 4);
  });
}

namespace {

/// A program that interrupts the wait of one thread, once, and is asked again while the operation ends.
struct Interrupting {
  std::promise<void> asked_again;
  int asked = 0;
  static inline thread_local bool here = false;

  static std::int32_t ask(void* context) {
    auto* const self = static_cast<Interrupting*>(context);
    if (!here) return 0;
    if (++self->asked == 2) self->asked_again.set_value();
    return self->asked == 1 ? 1 : 0;
  }
};

}  // namespace

TEST_CASE("an interrupted wait returns when the operation has left its buffer, however long that takes") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    Communicator others = comm.subgroup(std::array{0, 1});
    int value = 1;
    if (comm.rank() == 1) {
      others.all_reduce(std::span{&value, 1}, user_op<int>(std::plus<>{}));
      error_of([&] { comm.barrier(); });  // until rank 0 is interrupted
      return;
    }
    std::vector<int> data(10);
    Work work = comm.irecv(data, 1);
    Interrupting program;
    std::promise<void> begun;
    std::thread busy{[&] {  // drives the engine, and is in a function of the user's
      const auto wait = user_op<int>([&](int a, int b) {
        begun.set_value();
        program.asked_again.get_future().wait_for(20s);
        return a + b;
      });
      error_of([&] { others.all_reduce(std::span{&value, 1}, wait); });
    }};
    CHECK(begun.get_future().wait_for(20s) == std::future_status::ready);
    Interrupting::here = true;
    set_wait_hook({Interrupting::ask, &program});
    ErrorCode code{};
    error_of([&] { work.wait(); }, &code);
    set_wait_hook({});
    CHECK(code == ErrorCode::aborted);
    CHECK(work.done());
    busy.join();
  });
}

TEST_CASE("wait_for gives up when the time is over and succeeds later") {
  run_ranks({.ranks = 2, .kind = Kind::tcp}, [](Communicator& comm) {
    std::vector<int> token(1);
    if (comm.rank() == 0) {
      Work work = comm.irecv(token, 1);
      CHECK_FALSE(work.wait_for(20ms));
      CHECK_FALSE(work.done());
      comm.send(token, 1, {.tag = 1});
      CHECK(work.wait_for(20s));
      CHECK(token[0] == 42);
    } else {
      comm.recv(token, 0, {.tag = 1});
      token[0] = 42;
      comm.send(token, 0);
    }
  });
}

TEST_CASE("a parent and its sub-group are used from two threads at the same time") {
  for (const Kind kind : {Kind::inproc, Kind::shm, Kind::mixed}) {
    run_ranks({.ranks = 4, .kind = kind}, [](Communicator& comm) {
      Communicator half = comm.split(comm.rank() % 2);
      std::vector<int> of_all(3000, 1);
      std::vector<int> of_half(3000, 1);
      std::thread other{[&] {
        for (int round = 0; round < 50; ++round) {
          of_half.assign(3000, 1);
          half.all_reduce(of_half, sum);
        }
      }};
      for (int round = 0; round < 50; ++round) {
        of_all.assign(3000, 1);
        comm.all_reduce(of_all, sum);
      }
      other.join();
      CHECK(of_all[2999] == 4);
      CHECK(of_half[2999] == 2);
    });
  }
}

}  // namespace
}  // namespace tutti::testing
