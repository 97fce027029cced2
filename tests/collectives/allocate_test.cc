// What is done in memory that all ranks see is what is done in any other, to the last bit.

#include "tutti/allocate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/base/internals.h"
#include "lib/board/window.h"
#include "lib/engine/engine.h"
#include "lib/group/context.h"
#include "tests/support/noise.h"
#include "tests/support/sample.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using Vector = std::vector<float>;

/// What a rank gets from each collective with `count` elements to a part, in buffers that begin where `in` and `out`
/// do.
Vector results(Communicator& comm, std::size_t count, std::span<float> in, std::span<float> out) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto own = static_cast<std::size_t>(comm.rank()) * count;
  const int root = comm.size() - 1;
  const auto one_in = in.first(count), one_out = out.first(count);
  const auto all_in = in.first(ranks * count), all_out = out.first(ranks * count);
  Vector got;
  const auto fill = [&](std::span<float> with) { std::ranges::copy(noise(with.size(), comm.rank()), with.begin()); };
  const auto keep = [&](std::span<const float> values) { got.insert(got.end(), values.begin(), values.end()); };

  fill(one_in);
  comm.all_reduce(one_in, one_out, sum);
  keep(one_out);
  keep(one_in);  // it is still there
  comm.all_reduce(one_in, avg);
  keep(one_in);
  fill(one_in);
  comm.all_reduce(one_in, premul_sum(0.3));
  keep(one_in);
  fill(one_in);
  comm.reduce(one_in, one_out, max, root);
  if (comm.rank() == root) keep(one_out);
  comm.reduce(one_in, sum, root);
  if (comm.rank() == root) keep(one_in);
  fill(one_out);
  comm.broadcast(one_out, root);
  keep(one_out);
  fill(one_in);
  comm.all_gather(one_in, all_out);
  keep(all_out);
  std::ranges::fill(all_out, 0.0F);
  fill(all_out.subspan(own, count));
  comm.all_gather(all_out.subspan(own, count), all_out);
  keep(all_out);
  fill(all_in);
  comm.reduce_scatter(all_in, one_out, sum);
  keep(one_out);
  comm.reduce_scatter(all_in, all_in.subspan(own, count), sum);
  keep(all_in.subspan(own, count));
  fill(all_in);
  comm.all_to_all(all_in, all_out);
  keep(all_out);
  comm.all_to_all(all_in, all_in);
  keep(all_in);
  fill(one_in);
  comm.gather(one_in, all_out, root);
  if (comm.rank() == root) keep(all_out);
  fill(all_in);
  comm.scatter(all_in, one_out, root);
  keep(one_out);
  comm.barrier();
  return got;
}

}  // namespace

TEST_CASE("calls in allocated memory give the same bits as others") {
  Lot lot{1, 12};
  for (const Kind kind : {Kind::inproc, Kind::shm, Kind::mixed}) {
    for (const int ranks : {2, 3, 5}) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{50'001}}) {
        if (!lot.draws()) continue;
        CAPTURE(std::string{name_of(kind)});
        CAPTURE(ranks);
        CAPTURE(count);
        run_ranks({.ranks = ranks, .kind = kind, .deterministic = true}, [&](Communicator& comm) {
          const std::size_t most = count * static_cast<std::size_t>(ranks) + 3;
          Vector in(most), out(most);
          const SharedArray<float> shared_in = allocate<float>(comm, most), shared_out = allocate<float>(comm, most);
          CHECK(shared_in.is_shared() == (kind != Kind::mixed));
          CHECK(std::ranges::count(shared_in, 0.0F) == std::ssize(shared_in));
          const Vector expected = results(comm, count, std::span{in}.subspan(3), out);
          const Vector got = results(comm, count, std::span{shared_in}.subspan(3), shared_out);
          REQUIRE(got.size() == expected.size());
          CHECK(std::memcmp(got.data(), expected.data(), sizeof(float) * got.size()) == 0);
          const Vector mixed = results(comm, count, shared_in, out);
          CHECK(std::memcmp(mixed.data(), expected.data(), sizeof(float) * mixed.size()) == 0);
        });
      }
    }
  }
}

/// Where a call would run: its buffers that other ranks use. Each call is made as by a communicator.
class Locations : public CollectiveCalls<Locations, detail::WindowLocation> {
 public:
  explicit Locations(Communicator& comm) : collectives_(detail::Internals::state(comm)->collectives) {}
  detail::WindowLocation perform(const detail::Request& request) { return collectives_.plan(request).location; }

 private:
  detail::Collectives& collectives_;
};

TEST_CASE("calls run in allocated memory if the buffers that others use lie there, and no other algorithm is wanted") {
  constexpr std::size_t ranks = 3, count = 4096;
  run_ranks({.ranks = ranks, .kind = Kind::shm}, [](Communicator& comm) {
    Locations calls{comm};
    const SharedArray<float> first = allocate<float>(comm, ranks * count),
                             second = allocate<float>(comm, ranks * count);
    REQUIRE((first.is_shared() && second.is_shared()));
    Vector ordinary(ranks * count);
    const std::span all{first}, all_out{second}, all_plain{ordinary};
    const auto in = all.first(count), out = all_out.first(count), plain = all_plain.first(count);
    const auto has_input = [](const detail::WindowLocation& at) { return at.input && !at.output; };
    const auto has_output = [](const detail::WindowLocation& at) { return !at.input && at.output; };
    const auto has_both = [](const detail::WindowLocation& at) { return at.input && at.output; };
    CHECK(has_both(calls.all_reduce(in, out, sum)));
    CHECK(has_both(calls.all_reduce(in, avg)));
    CHECK(has_output(calls.broadcast(out, 1)));
    CHECK(has_output(calls.scatter(all_plain, out, 1)));
    CHECK(has_input(calls.reduce(in, plain, max, 1)));
    CHECK(has_input(calls.gather(in, all_plain, 1)));
    CHECK(has_input(calls.all_gather(in, all_plain)));
    CHECK(has_input(calls.reduce_scatter(all, plain, sum)));
    CHECK(has_input(calls.all_to_all(all, all_plain)));

    const auto is_elsewhere = [](const detail::WindowLocation& at) { return !at.given(); };
    CHECK(is_elsewhere(calls.all_reduce(in, plain, sum)));
    CHECK(is_elsewhere(calls.all_reduce(plain, out, sum)));
    CHECK(is_elsewhere(calls.broadcast(plain, 1)));
    CHECK(is_elsewhere(calls.scatter(all, plain, 1)));
    CHECK(is_elsewhere(calls.reduce(plain, out, max, 1)));
    CHECK(is_elsewhere(calls.gather(plain, all_out, 1)));
    CHECK(is_elsewhere(calls.all_gather(plain, all_out)));
    CHECK(is_elsewhere(calls.reduce_scatter(all_plain, out, sum)));
    CHECK(is_elsewhere(calls.all_to_all(all_plain, all_out)));
    CHECK(is_elsewhere(calls.all_to_all(all, all)));
    CHECK(is_elsewhere(calls.all_reduce(in, premul_sum(0.3))));
    CHECK(is_elsewhere(calls.all_reduce(in, user_op<float>([](float a, float b) { return a + b; }))));
    CHECK(is_elsewhere(calls.all_reduce(in, sum, {.algorithm = "ring"})));
    CHECK(is_elsewhere(calls.all_reduce(in.first(count - 1), sum)));  // less than 16 KiB
    CHECK(is_elsewhere(calls.scan(in, out, sum)));
    CHECK(is_elsewhere(calls.all_gather_v(in, all_out, {count, count, count})));
  });
}

TEST_CASE("calls in allocated memory may be asynchronous, persistent, and many") {
  run_ranks({.ranks = 3, .kind = Kind::shm}, [](Communicator& comm) {
    const SharedArray<int> one = allocate<int>(comm, 20'000), other = allocate<int>(comm, 20'000);
    Persistent persistent = comm.prepare().all_reduce(one, other, sum);
    for (int turn = 1; turn <= 50; ++turn) {
      std::ranges::fill(one, turn);
      std::ranges::fill(other, comm.rank());
      Work first = comm.async().all_reduce(one, sum);
      Work second = comm.async().broadcast(other, turn % 3);
      first.wait();
      second.wait();
      CHECK(std::ranges::count(one, 3 * turn) == 20'000);
      CHECK(std::ranges::count(other, turn % 3) == 20'000);
      persistent.run();
      CHECK(std::ranges::count(other, 9 * turn) == 20'000);
    }
  });
}

TEST_CASE("allocated memory outlives its name, its communicator and other allocations") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    std::optional<SharedArray<int>> kept;
    {
      Communicator half = comm.split(0);
      kept = allocate<int>(half, 10'000);
      const SharedArray<int> gone = allocate<int>(half, 10'000);
      std::ranges::fill(*kept, 1);
      half.all_reduce(*kept, sum);
    }
    comm.all_reduce(*kept, sum);  // not its communicator: as any memory
    CHECK(std::ranges::count(*kept, 4) == 10'000);
    for (int turn = 0; turn < 20; ++turn) {
      kept = allocate<int>(comm, 5'000);
      std::ranges::fill(*kept, comm.rank());
      comm.all_reduce(*kept, sum);
      CHECK(std::ranges::count(*kept, 1) == 5'000);
    }
  });
}

TEST_CASE("where no memory is shared, or none is asked for, it is ordinary memory") {
  run_ranks({.ranks = 2, .kind = Kind::tcp}, [](Communicator& comm) {
    const SharedArray<double> array = allocate<double>(comm, 5'000);
    CHECK_FALSE(array.is_shared());
    std::ranges::fill(array, 1.5);
    comm.all_reduce(array, sum);
    CHECK(std::ranges::count(array, 3.0) == 5'000);
  });
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    const SharedArray<double> nothing = allocate<double>(comm, 0);
    CHECK(nothing.size() == 0);
    comm.all_reduce(nothing, sum);
  });
  run_ranks({.ranks = 1}, [](Communicator& comm) {
    const SharedArray<double> array = allocate<double>(comm, 10);
    CHECK_FALSE(array.is_shared());
  });
}

TEST_CASE("ranks that ask for different sizes are told who did") {
  run_ranks({.ranks = 3, .kind = Kind::shm}, [](Communicator& comm) {
    ErrorCode code{};
    const std::string text = error_of([&] { (void)allocate<int>(comm, comm.rank() == 2 ? 30 : 20); }, &code);
    CHECK(code == ErrorCode::mismatch);
    CHECK(text.find(comm.rank() == 2 ? "120 bytes here, 80 on rank 0" : "80 bytes here, 120 on rank 2") !=
          std::string::npos);
    std::vector<int> one{1};
    comm.all_reduce(one, sum);  // which goes on
    CHECK(one[0] == 3);
  });
}

TEST_CASE("more than any memory holds is refused before anything is made") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    for (const int bits : {61, 62, 63}) {
      ErrorCode code{};
      error_of([&] { (void)allocate<std::uint8_t>(comm, (std::size_t{1} << bits) + 4096); }, &code);
      CHECK(code == ErrorCode::invalid_argument);
    }
    comm.barrier();
  });
}

TEST_CASE("memory that the system does not have is refused in its words" * doctest::skip(sanitized)) {
  run_ranks({.ranks = 1}, [](Communicator& comm) {
    ErrorCode code{};
    const std::string text = error_of([&] { (void)allocate<std::byte>(comm, std::size_t{1} << 47); }, &code);
    CHECK(code == ErrorCode::system);
    CHECK(text.find("allocate: 140737488355328 bytes: Cannot allocate memory") != std::string::npos);
  });
}

TEST_CASE("calls in different pairs of allocations have different numbers") {
  std::vector<detail::Window> windows;
  for (std::uint32_t number = 1; number <= 60; ++number) windows.emplace_back(nullptr, 0, 0, number);
  std::set<std::uint32_t> seen{0};
  for (const detail::Window& one : windows) {
    CHECK(seen.insert(detail::WindowLocation{.input = &one}.hash()).second);
    CHECK(seen.insert(detail::WindowLocation{.output = &one}.hash()).second);
    for (const detail::Window& other : windows)
      CHECK(seen.insert(detail::WindowLocation{.input = &one, .output = &other}.hash()).second);
  }
}

TEST_CASE("a location in memory that has been freed is none in later memory at the same address") {
  std::array<int, 64> first{}, second{};
  const auto memory_of = [](std::array<int, 64>& array) {
    return std::shared_ptr<std::byte>{reinterpret_cast<std::byte*>(array.data()), [](std::byte*) {}};
  };
  std::optional<detail::Window> window;
  window.emplace(memory_of(first), sizeof first, 0, 1);
  detail::Windows windows;
  windows.add(*window);
  detail::Request request{.collective = Collective::all_reduce, .input = {}, .output = {}};
  request.input = {first.data(), first.size(), DataType::i32};
  const detail::WindowLocation location = windows.location_of(request, true, false);
  CHECK(location.given());
  CHECK(windows.have(location));
  windows.remove(*window);
  CHECK_FALSE(windows.have(location));
  window.emplace(memory_of(second), sizeof second, 0, 2);
  windows.add(*window);
  CHECK_FALSE(windows.have(location));
}

TEST_CASE("a persistent call notices that its memory has been freed") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    std::optional<SharedArray<int>> array = allocate<int>(comm, 10'000);
    Persistent persistent = comm.prepare().all_reduce(*array, sum);
    persistent.run();
    array.reset();
    ErrorCode code{};
    CHECK(error_of([&] { persistent.run(); }, &code).find("has been freed") != std::string::npos);
    CHECK(code == ErrorCode::invalid_argument);
  });
}

TEST_CASE("a communicator ends when it is destroyed, whatever allocations it leaves") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    std::optional<Communicator> half = comm.split(0);
    const SharedArray<int> array = allocate<int>(*half, 10'000);
    if (comm.rank() == 0) half.reset();
    ErrorCode code{};
    if (half) error_of([&] { half->all_reduce(array, sum, {.timeout = std::chrono::seconds(30)}); }, &code);
    if (half) CHECK(code == ErrorCode::peer_lost);
    array[9'999] = comm.rank();
    comm.barrier();
    CHECK(array[9'999] == comm.rank());
  });
}

TEST_CASE("memory is shared by ranks whose messages are always there already") {
  // Because other threads take turns with the ranks, none waits for a message, which is when the engine would look
  // for what has arrived.
  std::vector<std::jthread> others(2 * std::clamp(std::thread::hardware_concurrency(), 1U, 4U));
  for (std::jthread& other : others)
    other = std::jthread{[](const std::stop_token& end) {
      while (!end.stop_requested()) continue;
    }};
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    for (int i = 0; i < 3; ++i) CHECK(allocate<int>(comm, 1000).is_shared());
  });
}

TEST_CASE("a call that may not wait is not counted: the next one shares memory") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    ErrorCode code{};
    const auto try_to_wait = [&] { CHECK(error_of([&] { (void)allocate<int>(comm, 1000); }, &code) != ""); };
    // As in a function of then(), which the owner of the engine calls.
    if (comm.rank() == 1) detail::Internals::state(comm)->group.context().engine->exclusively(try_to_wait);
    CHECK(code == (comm.rank() == 1 ? ErrorCode::invalid_argument : ErrorCode{}));
    CHECK(allocate<int>(comm, 1000).is_shared());
  });
}

TEST_CASE("buffers may lie at different places of an allocation, but not in different ones") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    const SharedArray<int> one = allocate<int>(comm, 20'000), other = allocate<int>(comm, 20'000);
    const auto part = std::span{one}.subspan(static_cast<std::size_t>(comm.rank()), 10'000);
    std::ranges::fill(part, 1);
    comm.all_reduce(part, sum);
    CHECK(std::ranges::count(one, 2) == 10'000);
    REQUIRE((one.is_shared() && other.is_shared()));
    ErrorCode code{};
    const std::string text = error_of([&] { comm.all_reduce(comm.rank() == 0 ? one : other, sum); }, &code);
    CAPTURE(text);
    CHECK(code == ErrorCode::mismatch);
    CHECK(text.find("memory of another allocate()") != std::string::npos);
  });
}

TEST_CASE("ranks of which only one passes allocated memory are told so") {
  const auto check = [](std::size_t count, const char* algorithm, const char* said) {
    run_ranks({.ranks = 2, .kind = Kind::shm}, [=](Communicator& comm) {
      const SharedArray<int> shared = allocate<int>(comm, count);
      REQUIRE(shared.is_shared());
      std::vector<int> own(shared.size());
      ErrorCode code{};
      const auto data = comm.rank() == 0 ? std::span{shared} : own;
      const std::string text = error_of([&] { comm.all_reduce(data, sum, {.algorithm = algorithm}); }, &code);
      CAPTURE(text);
      CHECK(code == ErrorCode::mismatch);
      CHECK(text.find(said) != std::string::npos);
      CHECK(text.find("give all ranks memory of the same allocate()") != std::string::npos);
    });
  };
  check(10'000, "", "direct_two_shot in allocated memory");  // both on a board
  check(20'000, "", "direct_two_shot in allocated memory");  // the other one over links
  check(10'000, "direct_two_shot", "in allocated memory: give all ranks memory of the same allocate()");
}

}  // namespace tutti::testing
