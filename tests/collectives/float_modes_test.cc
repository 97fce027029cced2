// Ranks whose threads have other floating-point modes than the rest end with the same bits, and keep their modes.

#include <doctest/doctest.h>

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "algorithms/catalogue.h"
#include "lib/compute/kernels.h"
#include "tests/support/same_bits.h"
#include "tests/support/sample.h"
#include "tests/support/world.h"
#include "tutti/allocate.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tutti::testing {
namespace {

/// What a program may have done to its thread.
enum class Modes { usual, flushing, upward, trapping };
constexpr int kinds_of_modes = 4;

void set_modes(Modes modes) {
  switch (modes) {
    case Modes::usual:
      return;
    case Modes::flushing:
#if defined(__x86_64__)
      _mm_setcsr(_mm_getcsr() | 0x8040);  // as -ffast-math does
#else
      std::fesetround(FE_TOWARDZERO);
#endif
      return;
    case Modes::upward:
      std::fesetround(FE_UPWARD);
      return;
    case Modes::trapping:
      std::feclearexcept(FE_ALL_EXCEPT);
      feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW);
      return;
  }
}

/// Modes of this thread, for as long as it lives; it had the usual ones.
class InModes {
 public:
  explicit InModes(Modes modes) {
    std::fegetenv(&before_);
    set_modes(modes);
    rounding_ = std::fegetround();
    traps_ = fegetexcept();
    flushes_ = flushes();
  }
  ~InModes() { std::fesetenv(&before_); }
  InModes(const InModes&) = delete;
  InModes& operator=(const InModes&) = delete;

  bool are_as_they_were() const {
    return std::fegetround() == rounding_ && fegetexcept() == traps_ && flushes() == flushes_;
  }

 private:
  static unsigned flushes() {
#if defined(__x86_64__)
    return _mm_getcsr() & 0x8040;
#else
    return 0;
#endif
  }
  std::fenv_t before_;
  int rounding_ = 0;
  int traps_ = 0;
  unsigned flushes_ = 0;
};

using Bytes = std::vector<std::byte>;

/// Subnormal numbers, numbers whose sums must be rounded, and, at the end, numbers whose sum or product is infinite.
template <class T>
std::vector<T> awkward(std::size_t count, int rank) {
  std::mt19937 random{static_cast<unsigned>(rank)};
  std::vector<T> data(count);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == 2) {
      const unsigned bits = static_cast<unsigned>(random());
      const unsigned largest = std::is_same_v<T, f16> ? 0x7bffU : 0x7f7fU;
      data[i].bits = static_cast<std::uint16_t>(i % 2 == 0 ? bits & 0x807fU : 0x3000U | (bits & 0x0fffU));
      if (i % 11 == 10) data[i].bits = static_cast<std::uint16_t>(largest);
    } else {
      const T part = static_cast<T>(random()) / static_cast<T>(random.max());
      data[i] = i % 2 == 0 ? part * std::numeric_limits<T>::min() : part;
      if (i % 11 == 10) data[i] = std::numeric_limits<T>::max();
    }
  }
  return data;
}

template <class T>
std::vector<Op> ops_for() {
  if constexpr (sizeof(T) == 2) {
    return {sum, product, avg, max, premul_sum(0.3)};
  } else {
    return {sum, product, avg, min, premul_sum(0.3)};
  }
}

void keep(Bytes& all, const void* data, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(data);
  all.insert(all.end(), begin, begin + bytes);
}

/// What this rank gets from reductions of T by `algorithm`, in all ways in which memory may be given.
template <class T>
void reduce_all(Communicator& comm, std::string_view algorithm, Modes modes, Bytes& got) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1037}}) {
    const std::vector<T> mine = awkward<T>(count, comm.rank());
    std::vector<T> result(count);
    for (const Op& op : ops_for<T>()) {
      const InModes in_modes{modes};
      comm.all_reduce(mine, result, op, {.algorithm = algorithm});
      CHECK(in_modes.are_as_they_were());
      keep(got, result.data(), count * sizeof(T));
    }
  }
}

template <class T>
void reduce_in_allocated_memory(Communicator& comm, Modes modes, Bytes& got) {
  constexpr std::size_t count = 16'411;  // enough for calls there to look for it
  const SharedArray<T> shared = allocate<T>(comm, count);
  const std::vector<T> mine = awkward<T>(count, comm.rank());
  for (const Op& op : ops_for<T>()) {
    std::copy(mine.begin(), mine.end(), shared.begin());
    const InModes in_modes{modes};
    comm.all_reduce(shared, op);
    CHECK(in_modes.are_as_they_were());
    keep(got, shared.data(), count * sizeof(T));
    comm.barrier();
  }
}

/// Nobody waits, so that the helper thread drives. It has the modes of the thread that made it.
void reduce_behind_the_back(Communicator& comm, Modes modes, Bytes& got) {
  std::vector<float> data = awkward<float>(1037, comm.rank());
  const InModes in_modes{modes};
  Work work = comm.async().all_reduce(data, sum);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!work.done() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  work.wait();
  CHECK(in_modes.are_as_they_were());
  keep(got, data.data(), data.size() * sizeof(float));
}

template <class T>
void reduce_by_all(Communicator& comm, Modes modes, Bytes& got) {
  for (const algorithms::Entry& entry : algorithms::catalogue(Collective::all_reduce))
    reduce_all<T>(comm, entry.name, modes, got);
  reduce_in_allocated_memory<T>(comm, modes, got);
}

std::vector<Bytes> results(const WorldOptions& options, bool alike) {
  std::vector<Bytes> got(static_cast<std::size_t>(options.ranks));
  run_ranks(options, [&](Communicator& comm) {
    const Modes modes = alike ? Modes::usual : static_cast<Modes>(comm.rank() % kinds_of_modes);
    Bytes& mine = got[static_cast<std::size_t>(comm.rank())];
    reduce_by_all<f16>(comm, modes, mine);
    reduce_by_all<bf16>(comm, modes, mine);
    reduce_by_all<float>(comm, modes, mine);
    reduce_by_all<double>(comm, modes, mine);
    reduce_behind_the_back(comm, modes, mine);
  });
  return got;
}

}  // namespace

TEST_CASE("ranks in whatever floating-point modes end with the same bits, and keep their modes") {
  Lot lot{1, 3};
  for (const compute::Table* table : compute::available_tables()) {
    for (const bool boards : {true, false}) {
      if (!lot.draws()) continue;
      CAPTURE(std::string{table->isa});
      CAPTURE(boards);
      const WorldOptions options{.ranks = 5, .boards = boards, .isa = table->isa};
      const std::vector<Bytes> expected = results(options, true), got = results(options, false);
      for (const Bytes& bytes : got) {
        REQUIRE(bytes.size() == expected.front().size());
        CHECK(std::memcmp(bytes.data(), expected.front().data(), bytes.size()) == 0);
      }
    }
  }
}

// ---- A user's function, which runs in the modes of whoever makes the call ---------------------------------------

float tenths(float a, float b) { return a * 0.1F + b * 0.1F; }

/// What two ranks get in these modes, rank 0's elements first, as `direct` folds them.
std::vector<float> tenths_in(Modes modes, std::size_t count) {
  const std::vector<float> first = awkward<float>(count, 0), second = awkward<float>(count, 1);
  std::vector<float> result(count);
  const InModes in_modes{modes};
  for (std::size_t i = 0; i < count; ++i) result[i] = tenths(first[i], second[i]);
  return result;
}

TEST_CASE("a user's function runs in the modes of the thread that makes the call") {
  constexpr std::size_t count = 1037;
  const Modes of_ranks[] = {Modes::flushing, Modes::upward};
  REQUIRE(!same_bits(tenths_in(Modes::flushing, count), tenths_in(Modes::usual, count)));
  REQUIRE(!same_bits(tenths_in(Modes::upward, count), tenths_in(Modes::usual, count)));
  for (const bool boards : {true, false}) {
    CAPTURE(boards);
    run_ranks({.ranks = 2, .boards = boards}, [&](Communicator& comm) {
      const Modes modes = of_ranks[comm.rank()];
      const std::vector<float> mine = awkward<float>(count, comm.rank()), expected = tenths_in(modes, count);
      std::vector<float> result(count);
      const Op op = user_op<float>(tenths);
      const CallOptions direct{.algorithm = "direct"};
      comm.async().all_reduce(mine, result, sum).wait();  // the helper thread is made in the usual modes
      Persistent prepared = comm.prepare().all_reduce(mine, result, op, direct);
      {
        const InModes in_modes{modes};
        comm.all_reduce(mine, result, op, direct);
        CHECK(same_bits(result, expected));

        Work work = comm.async().all_reduce(mine, result, op, direct);
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!work.done() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
        work.wait();
        CHECK(same_bits(result, expected));

        prepared.run();
        CHECK(same_bits(result, expected));
        CHECK(in_modes.are_as_they_were());
      }
      prepared.run();
      CHECK(same_bits(result, tenths_in(Modes::usual, count)));
    });
  }
}

TEST_CASE("flags of exceptions that a program has raised are still there after a call") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    for (const Modes modes : {Modes::usual, Modes::upward}) {
      const InModes in_modes{modes};
      std::feraiseexcept(FE_DIVBYZERO);
      std::vector<float> data(4, 0.1F);
      comm.all_reduce(data, sum);
      CHECK(std::fetestexcept(FE_DIVBYZERO) != 0);
    }
  });
}

}  // namespace tutti::testing
