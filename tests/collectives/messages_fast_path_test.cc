// Sends and receives that their callers do themselves, beside those that the engine does.

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <iterator>
#include <numeric>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/base/index.h"
#include "lib/observe/black_box_reader.h"
#include "tests/support/sample.h"
#include "tests/support/scratch.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// After it both ends know each other, and have done an operation whose memory can be used again.
void warm_up(Communicator& comm) {
  int token = comm.rank();
  for (int round = 0; round < 3; ++round) {
    if (comm.rank() == 0) {
      comm.send(std::span{&token, 1}, 1);
      comm.recv(std::span{&token, 1}, 1);
    } else {
      comm.recv(std::span{&token, 1}, 0);
      comm.send(std::span{&token, 1}, 0);
    }
  }
}

std::size_t threads_of_process() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator{"/proc/self/task"}, fs::directory_iterator{}));
}

TEST_CASE("a small send that does not wait is over at once, and needs no thread to help") {
  for (const bool boards : {true, false}) {
    run_ranks({.ranks = 2, .kind = Kind::shm, .boards = boards}, [boards](Communicator& comm) {
      warm_up(comm);
      std::vector<int> token{comm.rank()};
      comm.barrier();
      if (comm.rank() == 0) {
        const std::size_t before = threads_of_process();
        const Work work = comm.isend(token, 1);
        CHECK(work.done());
        CHECK(threads_of_process() - before == (boards ? 0 : 1));
      } else {
        comm.recv(token, 0);
        CHECK(token[0] == 0);
      }
      comm.barrier();
    });
  }
}

/// What both ends of a stream do, known to both.
struct Step {
  std::size_t size = 0;
  int tag = 0;
  bool sender_waits = true;
  bool receiver_waits = true;
};

std::vector<Step> steps_of(unsigned seed) {
  std::mt19937 random{seed};
  std::vector<Step> steps(400);
  for (Step& step : steps) {
    constexpr std::size_t sizes[] = {0, 1, 52, 53, 1000, 8192, 8193, 16'384, 16'385, 70'000};
    step = {sizes[random() % std::size(sizes)], static_cast<int>(random() % 2), random() % 3 != 0, random() % 3 != 0};
  }
  return steps;
}

std::vector<int> content_of(std::size_t step, std::size_t size) {
  std::vector<int> content(size);
  std::iota(content.begin(), content.end(), static_cast<int>(31 * step));
  return content;
}

void send_all(Communicator& comm, const std::vector<Step>& steps) {
  std::vector<std::vector<int>> data;
  std::vector<Work> works;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::vector<int>& message = data.emplace_back(content_of(i, steps[i].size));
    if (steps[i].sender_waits) {
      comm.send(message, 1, {.tag = steps[i].tag});
    } else {
      works.push_back(comm.isend(message, 1, {.tag = steps[i].tag}));
    }
  }
  for (Work& work : works) work.wait();
}

void receive_all(Communicator& comm, const std::vector<Step>& steps) {
  std::vector<std::vector<int>> data;
  std::vector<Work> works;
  for (const Step& step : steps) {
    std::vector<int>& message = data.emplace_back(step.size, -1);
    if (step.receiver_waits) {
      CHECK(comm.recv(message, 0, {.tag = step.tag}).count == step.size);
    } else {
      works.push_back(comm.irecv(message, 0, {.tag = step.tag}));
    }
  }
  for (Work& work : works) work.wait();
  for (std::size_t i = 0; i < steps.size(); ++i) REQUIRE(data[i] == content_of(i, steps[i].size));
}

TEST_CASE("messages keep their order, however each end of them waits") {
  Lot lot{1, 4};
  for (const Kind kind : {Kind::inproc, Kind::shm}) {
    for (const bool boards : {true, false}) {
      for (unsigned seed = 1; seed <= 3; ++seed) {
        if (!lot.draws()) continue;
        CAPTURE(seed);
        run_ranks({.ranks = 2, .kind = kind, .boards = boards}, [seed](Communicator& comm) {
          warm_up(comm);
          const std::vector<Step> steps = steps_of(seed);
          comm.rank() == 0 ? send_all(comm, steps) : receive_all(comm, steps);
        });
      }
    }
  }
}

TEST_CASE("messages that do not come as expected are received all the same") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    warm_up(comm);
    for (int round = 0; round < 50; ++round) {
      if (comm.rank() == 0) {
        comm.send(std::vector{round, 1, 2}, 1, {.tag = 1});
        comm.send(std::vector{round, 3}, 1, {.tag = 2});
        comm.send(std::vector<float>{4}, 1, {.tag = 1});
        comm.send(std::vector{round, 5}, 1, {.tag = 3});
        comm.recv(std::vector<int>(1), 1);
        continue;
      }
      std::vector<int> in(3);
      CHECK(comm.recv(in, 0, {.tag = 2}).count == 2);  // not the next, and shorter
      CHECK(std::pair{in[0], in[1]} == std::pair{round, 3});
      CHECK(comm.recv(in, 0, {.tag = 1}).count == 3);
      CHECK(in == std::vector{round, 1, 2});
      ErrorCode code{};
      CHECK(error_of([&] { comm.recv(in, 0, {.tag = 1}); }, &code).find("1 x f32") != std::string::npos);
      CHECK(code == ErrorCode::truncated);
      const MessageStatus status = comm.recv(in, 0, {.tag = any_tag});
      CHECK(std::pair{status.tag, status.count} == std::pair{3, std::size_t{2}});
      comm.send(std::vector{round}, 0);
    }
  });
}

TEST_CASE("the black box has what was taken at once, as done") {
  const Folder folder;
  const Setting setting{"TUTTI_BLACK_BOX", folder.name + "/%r"};
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    warm_up(comm);
    std::vector<double> data(3);
    for (int tag = 0; tag < 5; ++tag)
      comm.rank() == 0 ? comm.send(data, 1, {.tag = tag}) : void(comm.recv(data, 0, {.tag = tag}));
  });
  const Descriptor file{::open((folder.name + "/1").c_str(), O_RDONLY | O_CLOEXEC)};
  const black_box::Snapshot seen = black_box::read(file, "1");
  REQUIRE(seen.entries.size() == 6 + 5);
  for (int tag = 0; tag < 5; ++tag) {
    const black_box::OperationRecord& entry = seen.entries[seen.entries.size() - 5 + static_cast<std::size_t>(tag)];
    CHECK(entry.call.collective == black_box::receive);
    CHECK(entry.call.tag == tag);
    CHECK(entry.call.root == 0);
    CHECK(entry.call.count == 3);
    CHECK(entry.bytes == 24);
    CHECK(entry.state == black_box::State::done);
    CHECK(entry.ended >= entry.call.started);
  }
}

TEST_CASE("two threads of each rank exchange messages on one communicator") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    warm_up(comm);
    const int other = 1 - comm.rank();
    const auto exchange = [&](int tag) {
      for (int round = 0; round < 2000; ++round) {
        const std::vector<int> out{round, tag};
        std::vector<int> in(2);
        Work work = comm.isend(out, other, {.tag = tag});
        comm.recv(in, other, {.tag = tag});
        work.wait();
        REQUIRE(in == out);
      }
    };
    std::thread second{[&] { exchange(1); }};
    exchange(0);
    second.join();
  });
}

/// What a receive says that comes to nothing.
std::string vain_receive(Communicator& comm, std::chrono::milliseconds timeout, ErrorCode& code) {
  int token = 0;
  return error_of([&] { comm.recv(std::span{&token, 1}, 0, {.timeout = timeout}); }, &code);
}

TEST_CASE("a receive that nobody answers ends at its deadline") {
  run_ranks({.ranks = 2, .kind = Kind::shm, .leave_together = true}, [](Communicator& comm) {
    warm_up(comm);
    if (comm.rank() == 0) return;
    ErrorCode code{};
    const std::string what = vain_receive(comm, 50ms, code);
    CHECK(code == ErrorCode::timeout);
    CHECK(what.find("recv of 1 x i32 from rank 0") != std::string::npos);
  });
}

TEST_CASE("a receive from a rank that has left ends with an error") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    warm_up(comm);
    if (comm.rank() == 0) return;
    ErrorCode code{};
    const std::string what = vain_receive(comm, 10s, code);
    CHECK(code == ErrorCode::peer_lost);
    CHECK(what.find("rank 0") != std::string::npos);
  });
}

TEST_CASE("both ranks may send before they receive if links are memory or the message is short, at any time") {
  for (const Kind kind : all_kinds) {
    CAPTURE(std::string{name_of(kind)});
    const bool is_memory = kind == Kind::inproc || kind == Kind::shm;
    const int rounds = is_memory ? 20 : 15;  // over TCP as many as the credit allows: returning it takes a connection
    for (const auto mode : {transport::SingleCopy::measured, transport::SingleCopy::always}) {
      const WorldOptions options{
          .ranks = 2, .kind = kind, .copy_policy = {.single_copy = mode}, .timeout = std::chrono::seconds(20)};
      run_ranks(options, [is_memory, rounds](Communicator& comm) {
        for (const std::size_t size : {64 * 1024UL, 200 * 1024UL, 256 * 1024UL}) {
          if (size > 64 * 1024 && !is_memory) continue;
          std::vector<std::uint8_t> in(size);
          for (int round = 0; round < rounds; ++round) {
            const auto content = [&](int rank) {
              return std::vector<std::uint8_t>(size, static_cast<std::uint8_t>(2 * round + rank));
            };
            comm.send(content(comm.rank()), 1 - comm.rank());
            comm.recv(in, 1 - comm.rank());
            REQUIRE(in == content(1 - comm.rank()));
          }
        }
      });
    }
  }
}

// ---- Exchanges whose messages are read from their senders' memory ---------------------------------------------------

WorldOptions lending(int ranks, bool shared_cores = false) {
  return {.ranks = ranks,
          .kind = Kind::shm,
          .copy_policy = {.single_copy = transport::SingleCopy::always, .cores_are_shared = shared_cores},
          .timeout = std::chrono::seconds(20)};
}

/// What `rank` sends in `round`: numbers that ascend from one that depends on both. Their table is made once, since
/// sanitizers make such a loop slow.
std::vector<std::uint32_t> content(std::size_t count, int rank, int round) {
  constexpr std::size_t most = 310'000;
  static const std::vector<std::uint32_t> ascending = [] {
    std::vector<std::uint32_t> numbers(most);
    std::iota(numbers.begin(), numbers.end(), 0U);
    return numbers;
  }();
  const std::size_t first = 1000 * at(rank) + 7 * at(round);
  REQUIRE(first + count <= most);
  const std::span words = std::span{ascending}.subspan(first, count);
  return {words.begin(), words.end()};
}

/// After it two ranks know that they may lend each other messages as long as `in`, which it fills.
void warm_up_exchanges(Communicator& comm, std::vector<std::uint32_t>& in) {
  const int other = 1 - comm.rank();
  for (int round = 0; round < 3; ++round) comm.sendrecv(content(in.size(), comm.rank(), round), other, in, other);
}

TEST_CASE("ranks exchange messages in a circle, and each may overwrite its own when the call has ended") {
  for (const bool shared_cores : {false, true}) {
    for (const int ranks : {2, 3}) {
      run_ranks(lending(ranks, shared_cores), [](Communicator& comm) {
        const int next = (comm.rank() + 1) % comm.size(), before = (comm.rank() + comm.size() - 1) % comm.size();
        for (const std::size_t count : {4095UL, 4096UL, 12'000UL, 65'536UL, 65'537UL, 300'000UL}) {
          std::vector<std::uint32_t> out, in(count);
          for (int round = 0; round < 40; ++round) {
            out = content(count, comm.rank(), round);
            const MessageStatus status = comm.sendrecv(out, next, in, before);
            std::ranges::fill(out, 0U);
            REQUIRE(in == content(count, before, round));
            REQUIRE(status.source == before);
            REQUIRE(status.count == count);
          }
        }
      });
    }
  }
}

TEST_CASE("an exchange does not wait for the receive of its message if the peer looks at its links") {
  std::promise<void> exchanged;
  run_ranks(lending(2), [&](Communicator& comm) {
    constexpr std::size_t count = 10'000;
    std::vector<std::uint32_t> in(count);
    warm_up_exchanges(comm, in);
    if (comm.rank() == 0) {
      comm.sendrecv(content(count, 0, 3), 1, in, 1);
      exchanged.set_value();
    } else {
      comm.send(content(count, 1, 3), 0);
      while (!comm.iprobe(0)) continue;
      exchanged.get_future().wait();
      comm.recv(in, 0);
    }
    CHECK(in == content(count, 1 - comm.rank(), 3));
  });
}

TEST_CASE("a message that does not fit costs its exchange alone, whose own message arrives") {
  run_ranks(lending(2), [](Communicator& comm) {
    constexpr std::size_t count = 10'000;
    std::vector<std::uint32_t> in(count);
    const int other = 1 - comm.rank();
    warm_up_exchanges(comm, in);
    const auto out = content(comm.rank() == 0 ? count : count + 1, comm.rank(), 3);
    ErrorCode code{};
    const std::string what = error_of([&] { comm.sendrecv(out, other, in, other); }, &code);
    CHECK((code == ErrorCode::truncated) == (comm.rank() == 0));
    CHECK(what.empty() == (comm.rank() == 1));
    comm.sendrecv(content(count, comm.rank(), 4), other, in, other);
    CHECK(in == content(count, other, 4));
  });
}

TEST_CASE("an exchange with a rank that leaves does not wait for ever") {
  run_ranks(lending(2), [](Communicator& comm) {
    constexpr std::size_t count = 10'000;
    std::vector<std::uint32_t> in(count);
    const int other = 1 - comm.rank();
    warm_up_exchanges(comm, in);
    if (comm.rank() == 1) return;
    ErrorCode code{};
    const std::string what = error_of([&] { comm.sendrecv(content(count, 0, 3), other, in, other); }, &code);
    CHECK(code == ErrorCode::peer_lost);
    CHECK(what.find("rank 1") != std::string::npos);
  });
}

}  // namespace
}  // namespace tutti::testing
