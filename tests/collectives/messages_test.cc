#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "lib/base/host.h"
#include "tests/support/sample.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

TEST_CASE("messages of every size around the eager limit arrive as they were sent") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 2, .kind = kind}, [](Communicator& comm) {
      for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{63}, eager_limit - 1, eager_limit,
                                     eager_limit + 1, 5 * eager_limit + 3}) {
        std::vector<std::uint8_t> data(size);
        if (comm.rank() == 0) {
          std::iota(data.begin(), data.end(), std::uint8_t{3});
          comm.send(data, 1, {.tag = 5});
        } else {
          const MessageStatus status = comm.recv(data, 0, {.tag = 5});
          CHECK(status.source == 0);
          CHECK(status.tag == 5);
          CHECK(status.count == size);
          for (std::size_t i = 0; i < size; ++i) REQUIRE(data[i] == static_cast<std::uint8_t>(i + 3));
        }
      }
    });
  }
}

TEST_CASE("tags choose among messages, and messages of one tag keep their order") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 2, .kind = kind}, [](Communicator& comm) {
      // Large and small ones mixed: an order kept only among small messages would show.
      const std::vector<std::size_t> sizes{10, 3 * eager_limit, 20, eager_limit + 5, 30};
      if (comm.rank() == 0) {
        std::vector<std::vector<int>> data;
        std::vector<Work> works;
        for (std::size_t i = 0; i < sizes.size(); ++i) data.emplace_back(sizes[i], static_cast<int>(i));
        for (std::size_t i = 0; i < sizes.size(); ++i)
          works.push_back(comm.isend(data[i], 1, {.tag = static_cast<int>(i % 2)}));
        for (Work& work : works) work.wait();
      } else {
        std::vector<int> got(3 * eager_limit);
        for (const std::size_t i : {1U, 3U, 0U, 2U, 4U}) {
          const MessageStatus status = comm.recv(got, 0, {.tag = static_cast<int>(i % 2)});
          CHECK(status.count == sizes[i]);
          CHECK(got[sizes[i] - 1] == static_cast<int>(i));
        }
      }
    });
  }
}

TEST_CASE("any_source and any_tag take whatever comes and say what it was") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 5, .kind = kind}, [](Communicator& comm) {
      if (comm.rank() == 2) {
        std::vector<int> seen(5);
        std::vector<int> value(1);
        for (int i = 0; i < 4; ++i) {
          const MessageStatus status = comm.recv(value, any_source, {.tag = any_tag});
          CHECK(status.tag == 10 * status.source);
          CHECK(value[0] == status.source);
          ++seen[static_cast<std::size_t>(status.source)];
        }
        CHECK(seen == std::vector<int>{1, 1, 0, 1, 1});
      } else {
        comm.send(std::vector<int>{comm.rank()}, 2, {.tag = 10 * comm.rank()});
      }
    });
  }
}

TEST_CASE("a ring of non-blocking sends and receives works for large messages, both ways at once") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 4, .kind = kind}, [](Communicator& comm) {
      const int next = (comm.rank() + 1) % 4;
      const int prev = (comm.rank() + 3) % 4;
      constexpr std::size_t count = 300'000;
      const auto numbers_of = [](int rank) {
        std::vector<double> numbers(count);
        std::iota(numbers.begin(), numbers.end(), rank * 1e6);
        return numbers;
      };
      const std::vector<double> out = numbers_of(comm.rank());
      std::vector<double> from_prev(count);
      std::vector<double> from_next(count);
      Work works[] = {comm.irecv(from_prev, prev), comm.irecv(from_next, next), comm.isend(out, next),
                      comm.isend(out, prev)};
      for (Work& work : works) work.wait();
      CHECK(from_prev == numbers_of(prev));
      CHECK(from_next == numbers_of(next));
    });
  }
}

TEST_CASE("more unexpected messages than the eager credit allows are neither lost nor buffered without bound") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 2, .kind = kind}, [](Communicator& comm) {
      constexpr int messages = 300;  // 300 x 16 KiB is well above the credit of 1 MiB
      std::vector<std::vector<int>> data;
      std::vector<Work> works;
      for (int i = 0; i < messages; ++i) data.emplace_back(4096, i);
      if (comm.rank() == 0) {
        for (int i = 0; i < messages; ++i) works.push_back(comm.isend(data[static_cast<std::size_t>(i)], 1));
        comm.send(std::vector<int>{1}, 1, {.tag = 9});
        for (Work& work : works) work.wait();
      } else {
        std::vector<int> got(4096);
        comm.recv(std::span(got).first(1), 0, {.tag = 9});
        for (int i = 0; i < messages; ++i) {
          comm.recv(got, 0, {.tag = 0});
          REQUIRE(got[4095] == i);
        }
      }
    });
  }
}

TEST_CASE("credit comes in the midst of a large message and does not disturb it") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 2, .kind = kind}, [](Communicator& comm) {
      const int rounds = only_a_sanitized_sample() ? 1 : 5;
      for (int round = 0; round < rounds; ++round) {
        std::vector<int> large(8 * 1024 * 1024, 7 + round);
        std::vector<int> small(4096);
        if (comm.rank() == 1) {
          Work goes = comm.isend(large, 0, {.tag = 1});
          for (int i = 0; i < 100; ++i) {  // of which at least 63 go eagerly, which is more than a lump of credit
            comm.recv(small, 0);
            REQUIRE(small.back() == i);
          }
          goes.wait();
        } else {
          std::vector<int> arrived(large.size());
          Work arrives = comm.irecv(arrived, 1, {.tag = 1});
          std::vector<std::vector<int>> smalls;
          std::vector<Work> go;
          for (int i = 0; i < 100; ++i) smalls.emplace_back(small.size(), i);
          for (const auto& data : smalls) go.push_back(comm.isend(data, 1));
          arrives.wait();
          REQUIRE(arrived.back() == large.back());  // first, as it might just be coming
          CHECK(arrived == large);
          for (Work& work : go) work.wait();
        }
      }
    });
  }
}

TEST_CASE(
    "the beginning of a large message that nobody expects yet waits for its receive, and costs credit no longer") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 2, .kind = kind, .timeout = std::chrono::seconds(20)}, [](Communicator& comm) {
      constexpr int messages = 70;  // their beginnings are twice the credit
      for (const std::size_t count : {16 * 1024 + 1U, 16 * 1024 + 9U, 100'000U}) {
        CAPTURE(count);
        std::vector<int> data(count);
        if (comm.rank() == 0) {
          std::iota(data.begin(), data.end(), 5);
          std::vector<Work> sends;
          for (int i = 0; i < messages; ++i) sends.push_back(comm.isend(data, 1, {.tag = 1}));
          Work last = comm.isend(data, 1, {.tag = 2});
          for (Work& send : sends) send.wait();
          last.wait();
          comm.send(std::span(data).first(1), 1, {.tag = 3});  // ends though its receive is called after the next one's
          comm.send(std::span(data).first(1), 1, {.tag = 4});
          continue;
        }
        std::vector<int> expected(count);
        std::iota(expected.begin(), expected.end(), 5);
        for (int i = 0; i <= messages; ++i) {
          std::ranges::fill(data, 0);
          comm.recv(data, 0, {.tag = i == 0 ? 2 : 1});  // the last, behind which all others have come
          REQUIRE(data == expected);
        }
        comm.recv(std::span(data).first(1), 0, {.tag = 4});
        comm.recv(std::span(data).first(1), 0, {.tag = 3});
      }
    });
  }
}

TEST_CASE("a sender waits for the receive of a message that is too long for the links of its transport") {
  for (const Kind kind : {Kind::shm, Kind::tcp}) {
    run_ranks({.ranks = 2, .kind = kind}, [kind](Communicator& comm) {
      const std::size_t longest = kind == Kind::shm ? 4 * eager_limit : eager_limit;
      std::vector<std::byte> data(longest + 1), token(1);
      if (comm.rank() == 0) {
        Work small = comm.isend(std::span(data).first(longest), 1, {.tag = 1});
        Work large = comm.isend(data, 1, {.tag = 2});
        comm.send(token, 1, {.tag = 3});
        comm.recv(token, 1, {.tag = 4});  // whose sender has seen all of that
        CHECK(small.done());
        CHECK_FALSE(large.done());
        comm.send(token, 1, {.tag = 5});
        large.wait();
      } else {
        comm.recv(token, 0, {.tag = 3});
        comm.send(token, 0, {.tag = 4});
        comm.recv(token, 0, {.tag = 5});
        comm.recv(data, 0, {.tag = 2});
        comm.recv(std::span(data).first(longest), 0, {.tag = 1});
      }
    });
  }
}

TEST_CASE("a rank sends to itself, small and large, in both orders") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    for (const std::size_t size : {std::size_t{4}, 2 * eager_limit}) {
      std::vector<int> out(size, 7);
      std::vector<int> in(size);
      Work send = comm.isend(out, comm.rank());
      comm.recv(in, comm.rank());
      send.wait();
      CHECK(in == out);
      in.assign(size, 0);
      Work receive = comm.irecv(in, comm.rank(), {.tag = 2});
      comm.send(out, comm.rank(), {.tag = 2});
      receive.wait();
      CHECK(in == out);
    }
  });
}

// ---- Messages of another length or type than their receive -------------------------------------------------------

constexpr int untouched = -7;
/// The messages are tiny, fill a slot or several, are the largest eager ones, may be copied once by the kernel, or have
/// a beginning that is sent with the request.
constexpr std::size_t lengths[] = {2, 1000, 10'000, eager_limit / 4 - 1, eager_limit / 4, eager_limit, 100'003};

enum class Posted { early, late, from_anybody, by_a_waiting_call };
constexpr Posted all_posted[] = {Posted::early, Posted::late, Posted::from_anybody, Posted::by_a_waiting_call};

/// Rank 0 sends `data` with tag 4, and rank 1 receives it into `memory`. What that says.
template <class Sent>
MessageStatus transfer(Communicator& comm, const std::vector<Sent>& data, std::vector<int>& memory, Posted posted,
                       ErrorCode& code, std::string& what) {
  const std::vector<int> token(1, 1);
  std::vector<int> heard(1);
  if (comm.rank() == 0) {
    if (posted == Posted::early) comm.recv(heard, 1, {.tag = 9});
    Work send = comm.isend(data, 1, {.tag = 4});
    if (posted != Posted::by_a_waiting_call) comm.send(token, 1, {.tag = 9});
    send.wait();  // well, whatever becomes of it
    return {};
  }
  if (posted == Posted::by_a_waiting_call) {
    MessageStatus status;
    what = error_of([&] { status = comm.recv(memory, 0, {.tag = 4}); }, &code);
    return status;
  }
  if (posted != Posted::early) comm.recv(heard, 0, {.tag = 9});
  Work work = comm.irecv(memory, posted == Posted::from_anybody ? any_source : 0, {.tag = 4});
  if (posted == Posted::early) {
    comm.send(token, 0, {.tag = 9});
    comm.recv(heard, 0, {.tag = 9});
  }
  what = error_of([&] { work.wait(); }, &code);
  return work.status();
}

void require_all_goes_on(Communicator& comm) {
  for (const std::size_t length : {std::size_t{1}, 2 * eager_limit}) {
    const std::vector<int> out(length, 10 + comm.rank());
    std::vector<int> in(length);
    Work send = comm.isend(out, 1 - comm.rank(), {.tag = 6});
    CHECK(comm.recv(in, 1 - comm.rank(), {.tag = 6}).count == length);
    CHECK(in == std::vector<int>(length, 11 - comm.rank()));
    send.wait();
  }
  std::vector<int> sum_of_ones(1, 1);
  comm.all_reduce(sum_of_ones, sum);
  CHECK(sum_of_ones[0] == 2);
}

TEST_CASE("a message that is too long costs its receive alone, which says what it was, and all else goes on") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 2, .kind = kind, .timeout = std::chrono::seconds(20)}, [](Communicator& comm) {
      for (const std::size_t length : lengths) {
        for (const Posted posted : all_posted) {
          CAPTURE(length);
          CAPTURE(static_cast<int>(posted));
          const std::vector<int> data(length, 1);
          std::vector<int> memory(length - 1, untouched);
          ErrorCode code{};
          std::string what;
          const MessageStatus status = transfer(comm, data, memory, posted, code, what);
          if (comm.rank() == 1) {
            CHECK_MESSAGE(code == ErrorCode::truncated, what);
            CHECK(what.find(std::to_string(length) + " x i32 with tag 4") != std::string::npos);
            CHECK(memory == std::vector<int>(length - 1, untouched));
            if (posted != Posted::by_a_waiting_call) {
              CHECK(std::pair{status.source, status.tag} == std::pair{0, 4});
              CHECK(status.count == length);
            }
          }
          require_all_goes_on(comm);
        }
      }
    });
  }
}

TEST_CASE("a message of another element type costs its receive alone, and all else goes on") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 2, .kind = kind, .timeout = std::chrono::seconds(20)}, [](Communicator& comm) {
      for (const std::size_t length : {std::size_t{2}, 2 * eager_limit}) {
        for (const Posted posted : all_posted) {
          const std::vector<float> data(length, 1);
          std::vector<int> memory(length, untouched);
          ErrorCode code{};
          std::string what;
          transfer(comm, data, memory, posted, code, what);
          if (comm.rank() == 1) {
            CHECK_MESSAGE(code == ErrorCode::truncated, what);
            CHECK(what.find("receive it as f32") != std::string::npos);
            CHECK(memory == std::vector<int>(length, untouched));
          }
          require_all_goes_on(comm);
        }
      }
    });
  }
}

TEST_CASE("the status of a shorter message says its length, and what follows it stays") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 2, .kind = kind}, [](Communicator& comm) {
      for (const std::size_t length : lengths) {
        for (const Posted posted : all_posted) {
          CAPTURE(length);
          const std::vector<int> data(length, 1);
          std::vector<int> memory(length + 3, untouched);
          ErrorCode code{};
          std::string what;
          const MessageStatus status = transfer(comm, data, memory, posted, code, what);
          if (comm.rank() == 0) continue;
          CHECK_MESSAGE(what.empty(), what);
          CHECK(status.count == length);
          std::vector<int> expected(data);
          expected.insert(expected.end(), 3, untouched);
          CHECK(memory == expected);
        }
      }
    });
  }
}

TEST_CASE("a message to oneself that does not fit costs its receive alone") {
  run_ranks({.ranks = 1}, [](Communicator& comm) {
    for (const std::size_t length : {std::size_t{2}, 2 * eager_limit}) {
      for (const bool early : {true, false}) {
        const std::vector<int> data(length, 1);
        std::vector<int> memory(length - 1, untouched);
        Work receive, send;
        if (early) receive = comm.irecv(memory, 0);
        send = comm.isend(data, 0);
        if (!early) receive = comm.irecv(memory, 0);
        ErrorCode code{};
        error_of([&] { receive.wait(); }, &code);
        CHECK(code == ErrorCode::truncated);
        send.wait();
        CHECK(memory == std::vector<int>(length - 1, untouched));
      }
    }
  });
}

}  // namespace
}  // namespace tutti::testing
