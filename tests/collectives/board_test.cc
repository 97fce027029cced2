// What is done on a board is what the plan called `direct` says, to the last bit: random numbers, whose sums depend on
// the order, are sent once over the board and once over links, in sizes that take no round's room, one or several
// rounds.

#include "transport/memory/board.h"

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/base/internals.h"
#include "lib/engine/engine.h"
#include "tests/support/noise.h"
#include "tests/support/sample.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using Vector = std::vector<float>;

/// All that one rank gets from a call of each collective, with `count` elements to a part.
Vector results(Communicator& comm, std::size_t count) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto own = static_cast<std::size_t>(comm.rank()) * count;
  const int root = comm.size() - 1;
  const Vector part = noise(count, comm.rank());
  const Vector parts = noise(count * ranks, comm.rank());
  Vector got;
  const auto keep = [&got](const Vector& values) { got.insert(got.end(), values.begin(), values.end()); };

  Vector one(count), all(count * ranks);
  comm.all_reduce(part, one, sum, {.algorithm = "direct"});
  keep(one);
  one = part;
  comm.all_reduce(one, avg, {.algorithm = "direct"});
  keep(one);
  one = part;
  comm.all_reduce(one, premul_sum(0.3), {.algorithm = "direct"});
  keep(one);
  one = part;
  comm.reduce(one, sum, root, {.algorithm = "direct"});
  if (comm.rank() == root) keep(one);
  one = part;
  comm.broadcast(one, root, {.algorithm = "direct"});
  keep(one);
  comm.all_gather(part, all, {.algorithm = "direct"});
  keep(all);
  std::fill(all.begin(), all.end(), 0.0F);
  std::copy(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(own));
  comm.all_gather(std::span{all}.subspan(own, count), std::span{all}, {.algorithm = "direct"});
  keep(all);
  comm.reduce_scatter(parts, one, sum, {.algorithm = "direct"});
  keep(one);
  all = parts;
  comm.reduce_scatter(std::span{all}, std::span{all}.subspan(own, count), sum, {.algorithm = "direct"});
  keep(Vector(all.begin() + static_cast<std::ptrdiff_t>(own), all.begin() + static_cast<std::ptrdiff_t>(own + count)));
  comm.all_to_all(parts, all, {.algorithm = "direct"});
  keep(all);
  all = parts;
  comm.all_to_all(all, all, {.algorithm = "direct"});
  keep(all);
  comm.gather(part, all, root, {.algorithm = "direct"});
  if (comm.rank() == root) keep(all);
  comm.scatter(parts, one, root, {.algorithm = "direct"});
  keep(one);
  return got;
}

std::vector<Vector> results_of(const WorldOptions& options, std::size_t count) {
  std::vector<Vector> by_rank(static_cast<std::size_t>(options.ranks));
  run_ranks(options,
            [&](Communicator& comm) { by_rank[static_cast<std::size_t>(comm.rank())] = results(comm, count); });
  return by_rank;
}

std::atomic<int> streamed{0};

constexpr transport::CopyPolicy counted_stores{.streaming =
                                                   [](void* to, const void* from, std::size_t bytes) {
                                                     ++streamed;
                                                     std::memcpy(to, from, bytes);
                                                   },
                                               .always = true};

TEST_CASE("boards and links give the same bits, whatever stores fill them") {
  Lot lot{1, 8};
  for (const int ranks : {2, 3, 5}) {
    const std::size_t room = transport::Board::capacity(ranks) / sizeof(float);
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{12}, std::size_t{13}, room / 4 + 1, room - 1, room, room + 1, 3 * room + 17}) {
      if (!lot.draws()) continue;
      CAPTURE(ranks);
      CAPTURE(count);
      const auto on_boards = results_of({.ranks = ranks}, count);
      for (const WorldOptions& options :
           {WorldOptions{.ranks = ranks, .boards = false}, WorldOptions{.ranks = ranks, .copy_policy = counted_stores},
            WorldOptions{.ranks = ranks, .boards = false, .copy_policy = counted_stores}}) {
        CAPTURE(options.boards);
        CAPTURE(options.copy_policy.always);
        streamed = 0;
        const auto others = results_of(options, count);
        const bool is_long = count * sizeof(float) >= transport::StoreChoice::least_bytes;
        CHECK((streamed > 0) == (options.copy_policy.always && is_long));
        for (std::size_t rank = 0; rank < on_boards.size(); ++rank) {
          CAPTURE(rank);
          REQUIRE(on_boards[rank].size() == others[rank].size());
          CHECK(std::memcmp(on_boards[rank].data(), others[rank].data(), sizeof(float) * on_boards[rank].size()) == 0);
        }
      }
    }
  }
}

std::atomic<long> read_elsewhere{0};  // messages, or long pieces of them, that were read in their senders' memory

TEST_CASE("messages that are read in their senders' memory bring the same bits") {
  Lot lot{1, 3};
  for (const int ranks : {2, 3, 5}) {
    for (const std::size_t count : {std::size_t{20'000}, std::size_t{100'001}}) {
      if (!lot.draws()) continue;
      CAPTURE(ranks);
      CAPTURE(count);
      const auto copied = results_of({.ranks = ranks, .boards = false}, count);
      const long before = read_elsewhere;
      const auto lent = results_of({.ranks = ranks,
                                    .kind = Kind::shm,
                                    .boards = false,
                                    .copy_policy = {.single_copy = transport::SingleCopy::always}},
                                   count);
      CHECK(lent == copied);
      // Each rank gets at least the others' parts in an all_gather.
      CHECK(read_elsewhere - before >= ranks * (ranks - 1));
    }
  }
}

TEST_CASE("results that are written past the caches are the same bits") {
  constexpr std::size_t count = (std::size_t{16} << 20) / sizeof(float) + 4;
  const Vector inputs[] = {noise(count, 0), noise(count, 1)};
  std::vector<Vector> results(2);
  for (const bool boards : {true, false}) {
    run_ranks({.ranks = 2, .kind = Kind::shm, .boards = boards}, [&](Communicator& comm) {
      const Vector& part = inputs[comm.rank()];
      Vector sums(count), all(2 * count), parts(count);
      comm.all_reduce(part, sums, avg, {.algorithm = "direct"});
      comm.all_gather(part, all, {.algorithm = "direct"});
      comm.all_to_all(part, parts, {.algorithm = "direct"});
      Vector& kept = results[static_cast<std::size_t>(comm.rank())];
      if (boards) kept = sums;
      CHECK(kept == sums);
      for (int rank = 0; rank < 2; ++rank) {
        const Vector& theirs = inputs[rank];
        const auto whole = static_cast<std::ptrdiff_t>(count), half = whole / 2;
        CHECK(std::equal(theirs.begin(), theirs.end(), all.begin() + rank * whole));
        CHECK(std::equal(parts.begin() + rank * half, parts.begin() + (rank + 1) * half,
                         theirs.begin() + comm.rank() * half));
      }
    });
  }
}

TEST_CASE("a message that leaves the caches arrives as it was sent, at any address, and nothing around it changes") {
  constexpr std::size_t size = (std::size_t{16} << 20) + 5, before = 3;
  const auto at = [](std::size_t i) { return static_cast<std::uint8_t>(i * 31 + (i >> 8)); };
  for (const Kind kind : {Kind::inproc, Kind::shm}) {
    run_ranks({.ranks = 2, .kind = kind}, [&](Communicator& comm) {
      std::vector<std::uint8_t> data(before + size + 1, std::uint8_t{7});
      const auto message = std::span{data}.subspan(before, size);
      if (comm.rank() == 0) {
        for (std::size_t i = 0; i < size; ++i) message[i] = at(i);
        comm.send(message, 1);
      } else {
        CHECK(comm.recv(message, 0).count == size);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < size; ++i) wrong += message[i] != at(i) ? 1U : 0U;
        CHECK(wrong == 0);
        CHECK(std::count(data.begin(), data.begin() + before, 7) == before);
        CHECK(data.back() == 7);
      }
    });
  }
}

TEST_CASE("a user's op is folded in rank order on boards, in place, too") {
  const auto latest = user_op<int>([](int a, int b) { return b != 0 ? b : a; });
  for (const int ranks : {2, 3}) {
    run_ranks({.ranks = ranks, .kind = Kind::inproc}, [&](Communicator& comm) {
      std::vector<int> data(100'000, comm.rank() + 1);
      comm.all_reduce(data, latest, {.algorithm = "direct"});
      CHECK(data == std::vector<int>(data.size(), comm.size()));
    });
  }
}

// ---- Beside calls over links -----------------------------------------------------------------------------------

/// A running call of another rank.
class Elsewhere {
 public:
  Elsewhere() = default;
  Elsewhere(const Elsewhere&) = delete;
  ~Elsewhere() {
    if (call_) call_->release();
  }
  void begins(const Work& work) {
    call_ = detail::Internals::pending(work);
    call_->retain();  // it may fail before another rank has looked
    given_.set_value();
  }
  /// Waits until what the call does on its rank has made that so.
  template <class Condition>
  void awaits(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{50};
    const auto is_so = [&] {
      bool so = false;
      call_->engine().exclusively([&] { so = condition(); });
      return so;
    };
    while (!is_so())
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error("it never came");
  }
  /// Its time to look at the other ranks has come, several times: it would suspect them if it had a reason.
  void looks_around() {
    if (future_.wait_for(std::chrono::seconds{50}) != std::future_status::ready) throw std::runtime_error("no call");
    for (int look = 0; look < 4; ++look)
      call_->engine().exclusively([this] {
        if (!call_->over()) call_->expire();
      });
  }

 private:
  detail::Pending* call_ = nullptr;
  std::promise<void> given_;
  std::shared_future<void> future_ = given_.get_future().share();
};

TEST_CASE("a rank that began the next call before it waited for this one is not suspected of other counts") {
  Elsewhere first, second;
  std::promise<void> next_has_begun;
  run_ranks({.ranks = 3, .kind = Kind::shm}, [&](Communicator& comm) {
    std::vector<float> large(1 << 20, 1), small(4, 1);
    comm.barrier();
    if (comm.rank() == 2) {
      REQUIRE(next_has_begun.get_future().wait_for(std::chrono::seconds{50}) == std::future_status::ready);
      first.looks_around();
      second.looks_around();
    }
    Work work = comm.async().all_reduce(large, sum, {.algorithm = "ring"});
    if (comm.rank() == 1) {
      second.begins(work);
      work.wait();
    }
    Work next = comm.async().all_reduce(small, sum, {.algorithm = "direct"});
    if (comm.rank() == 0) {
      first.begins(work);
      next_has_begun.set_value();
    }
    next.wait();
    work.wait();
    CHECK(large.back() == 3);
    CHECK(small.back() == 3);
  });
}

TEST_CASE("a rank that is a round behind in an earlier call suspects nobody in the next one") {
  Elsewhere root, other;
  run_ranks({.ranks = 3, .kind = Kind::shm}, [&](Communicator& comm) {
    std::vector<float> first(1 << 20, 1), second(1 << 18, 1);
    comm.barrier();
    if (comm.rank() == 1) {
      root.looks_around();
      other.looks_around();
      root.looks_around();
    }
    Work one = comm.async().reduce(first, sum, 0, {.algorithm = "direct"});
    Work two = comm.async().all_reduce(second, sum, {.algorithm = "ring"});
    if (comm.rank() != 1) (comm.rank() == 0 ? root : other).begins(two);
    one.wait();
    two.wait();
    CHECK(second.back() == 3);
  });
}

TEST_CASE("asynchronous calls go on beside calls that are done at once") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    std::vector<float> large(1 << 20, 1);
    float least = 0;
    Work work = comm.async().all_reduce(large, sum, {.algorithm = "ring"});
    int calls = 0;
    for (; least < 1 && calls < 20'000; ++calls) {
      least = work.done() ? 1 : 0;
      comm.all_reduce(std::span{&least, 1}, min, {.algorithm = "direct"});
    }
    CHECK(least == 1);
    work.wait();
    CHECK(large.back() == 2);
  });
}

TEST_CASE("a rank copies its own part before the others come") {
  std::promise<void> copied;
  Elsewhere first;
  run_ranks({.ranks = 2, .kind = Kind::shm}, [&](Communicator& comm) {
    const std::vector<int> part(1000, comm.rank() + 1);
    std::vector<int> all(2000);
    comm.barrier();
    if (comm.rank() == 1) REQUIRE(copied.get_future().wait_for(std::chrono::seconds{50}) == std::future_status::ready);
    Work work = comm.async().all_gather(part, all, {.algorithm = "direct"});
    if (comm.rank() == 0) {
      first.begins(work);
      first.awaits([&] { return all[0] == 1 && all[999] == 1; });
      copied.set_value();
    }
    work.wait();
    CHECK(all[999] == 1);
    CHECK(all[1000] == 2);
    CHECK(all[1999] == 2);
  });
}

TEST_CASE("more ranks than a board has room for use links") {
  run_ranks({.ranks = transport::Board::most_ranks + 1, .kind = Kind::inproc}, [](Communicator& comm) {
    const std::vector<int> parts(static_cast<std::size_t>(comm.size()), comm.rank());
    int own = 0;
    comm.reduce_scatter(parts, std::span{&own, 1}, sum, {.algorithm = "direct"});
    CHECK(own == comm.size() * (comm.size() - 1) / 2);
  });
}

TEST_CASE("the post of a rank that has left is still there for a rank that comes later") {
  std::promise<void> left;
  run_ranks({.ranks = 2, .kind = Kind::inproc}, [&](Communicator& comm) {
    int data = comm.rank() + 1;
    if (comm.rank() == 1) left.get_future().wait();
    comm.reduce(std::span{&data, 1}, sum, 1, {.algorithm = "direct"});
    if (comm.rank() == 1) CHECK(data == 3);
    if (comm.rank() == 0) {
      const Communicator gone = std::move(comm);
      left.set_value();
    }
  });
}

}  // namespace

void note_read(ssize_t bytes) {
  if (bytes >= static_cast<ssize_t>(transport::CopyChoice::least_bytes)) ++read_elsewhere;
}

}  // namespace tutti::testing

/// Takes the place of the C library's, so that the test sees single copies.
extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* to, unsigned long to_count, const iovec* from,
                                    unsigned long from_count, unsigned long flags) {
  const auto bytes = static_cast<ssize_t>(::syscall(SYS_process_vm_readv, pid, to, to_count, from, from_count, flags));
  tutti::testing::note_read(bytes);
  return bytes;
}
