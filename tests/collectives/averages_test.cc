// Averages of numbers whose sum their type cannot hold: what is exact, and the bounds of what is rounded, with every
// algorithm, in every kind of memory.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "algorithms/catalogue.h"
#include "tests/support/sample.h"
#include "tests/support/world.h"
#include "tutti/allocate.h"

namespace tutti::testing {
namespace {

__extension__ using Wide = __int128;

template <class T>
struct Format {
  static constexpr T largest = std::numeric_limits<T>::max();
  static constexpr double epsilon = std::numeric_limits<T>::epsilon();
};
template <>
struct Format<f16> {
  static constexpr float largest = 65504;
  static constexpr double epsilon = 0x1p-10;
};
template <>
struct Format<bf16> {
  static constexpr float largest = 0x1.fep127F;
  static constexpr double epsilon = 0x1p-7;
};
template <class T>
struct Format<std::complex<T>> : Format<T> {};

/// What rank `rank` of `ranks` brings to element `index`: the kind of element goes with the index.
template <std::integral T>
T element(int rank, std::size_t index) {
  constexpr T most = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::min();
  switch (index % 6) {
    case 0:
      return most;
    case 1:
      return least;
    case 2:
      return static_cast<T>(most - static_cast<T>(rank));
    case 3:
      return rank % 2 == 0 ? most : least;
    case 4:
      return static_cast<T>(rank + static_cast<int>(index));
    default:
      return static_cast<T>((index * 1000 + static_cast<std::size_t>(rank) + 1) * 0x9e3779b97f4a7c15 >> 17);
  }
}

template <class T>
constexpr bool is_half = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
template <class T>
constexpr bool is_complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

/// The elements of all ranks at one index have about the same size.
double real_element(int rank, std::size_t index, double largest) {
  switch (index % 5) {
    case 0:
      return largest;
    case 1:
      return -largest;
    case 2:
      return rank % 2 == 0 ? largest : -largest;
    case 3:
      return static_cast<double>(index % 1000);
    default:
      return largest / (rank + 1);
  }
}

template <class T>
requires(!std::integral<T>) T element(int rank, std::size_t index) {
  const double value = real_element(rank, index, static_cast<double>(Format<T>::largest));
  if constexpr (is_half<T>)
    return T{static_cast<float>(value)};
  else if constexpr (is_complex<T>)
    return {static_cast<typename T::value_type>(value), static_cast<typename T::value_type>(-value)};
  else
    return static_cast<T>(value);
}

long double real_part(auto value) {
  using T = decltype(value);
  if constexpr (is_half<T>)
    return static_cast<float>(value);
  else if constexpr (is_complex<T>)
    return value.real();
  else
    return value;
}

/// Exact for integers and f16; else up to the roundings of as many sums.
template <class T>
bool is_average(T result, int ranks, std::size_t index) {
  if constexpr (std::integral<T>) {
    Wide sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += element<T>(rank, index);
    return result == static_cast<T>(sum / ranks);
  } else {
    long double sum = 0, magnitude = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const long double value = real_part(element<T>(rank, index));
      sum += value;
      magnitude += std::abs(value);
    }
    if constexpr (is_complex<T>)
      if (result.imag() != -result.real()) return false;
    const long double roundings = std::is_same_v<T, f16> ? 1 : ranks;
    return std::abs(real_part(result) - sum / ranks) <= roundings / 2 * Format<T>::epsilon * magnitude / ranks;
  }
}

template <class T>
std::vector<T> elements(const Communicator& comm, std::size_t first, std::size_t count) {
  std::vector<T> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = element<T>(comm.rank(), first + i);
  return data;
}

template <class T>
bool are_averages(std::span<const T> results, int ranks, std::size_t first) {
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!is_average(results[i], ranks, first + i)) return false;
  return true;
}

template <class T>
void all_reduces(Communicator& comm, std::string_view algorithm, std::size_t count) {
  const std::vector<T> mine = elements<T>(comm, 0, count);
  std::vector<T> result(count), in_place = mine;
  comm.all_reduce(mine, result, avg, {.algorithm = algorithm});
  CHECK(are_averages<T>(result, comm.size(), 0));
  CHECK(std::memcmp(mine.data(), elements<T>(comm, 0, count).data(), count * sizeof(T)) == 0);
  comm.async().all_reduce(in_place, avg, {.algorithm = algorithm}).wait();
  CHECK(std::memcmp(in_place.data(), result.data(), count * sizeof(T)) == 0);
  std::vector<T> of_all(count * static_cast<std::size_t>(comm.size()));
  comm.all_gather(result, of_all);
  for (int rank = 0; rank < comm.size(); ++rank)
    CHECK(std::memcmp(&of_all[static_cast<std::size_t>(rank) * count], result.data(), count * sizeof(T)) == 0);
}

template <class T>
void reduces(Communicator& comm, std::string_view algorithm, std::size_t count) {
  const int root = comm.size() - 1;
  const std::vector<T> mine = elements<T>(comm, 0, count);
  std::vector<T> result(comm.rank() == root ? count : 0), in_place = mine;
  comm.reduce(mine, result, avg, root, {.algorithm = algorithm});
  CHECK(are_averages<T>(result, comm.size(), 0));
  comm.reduce(in_place, avg, root, {.algorithm = algorithm});
  const std::vector<T>& expected = comm.rank() == root ? result : mine;
  CHECK(std::memcmp(in_place.data(), expected.data(), count * sizeof(T)) == 0);
}

template <class T>
void reduce_scatters(Communicator& comm, std::string_view algorithm, std::size_t count) {
  const std::size_t first = static_cast<std::size_t>(comm.rank()) * count;
  const std::vector<T> mine = elements<T>(comm, 0, count * static_cast<std::size_t>(comm.size()));
  std::vector<T> result(count), in_place = mine;
  comm.reduce_scatter(mine, result, avg, {.algorithm = algorithm});
  CHECK(are_averages<T>(result, comm.size(), first));
  const std::span<T> own = std::span{in_place}.subspan(first, count);
  comm.reduce_scatter(std::span{in_place}, own, avg, {.algorithm = algorithm});
  CHECK(std::memcmp(own.data(), result.data(), count * sizeof(T)) == 0);
}

/// The algorithms that a case is about: all, or the one that boards serve.
template <class T>
void with_all_algorithms(Communicator& comm, bool boards, std::size_t count) {
  for (const algorithms::Entry& entry : algorithms::catalogue()) {
    if (boards && entry.name != "direct") continue;
    CAPTURE(std::string{entry.name});
    CAPTURE(std::string{name_of(data_type_of<T>)});
    CAPTURE(comm.size());
    if (entry.collective == Collective::all_reduce) all_reduces<T>(comm, entry.name, count);
    if (entry.collective == Collective::reduce) reduces<T>(comm, entry.name, count);
    if (entry.collective == Collective::reduce_scatter) reduce_scatters<T>(comm, entry.name, count);
  }
}

template <class Call>
void with_all_types(Call call) {
  call(std::int8_t{}), call(std::uint8_t{}), call(std::int16_t{}), call(std::uint16_t{});
  call(std::int32_t{}), call(std::uint32_t{}), call(std::int64_t{}), call(std::uint64_t{});
  call(f16{}), call(bf16{}), call(float{}), call(double{});
  call(std::complex<float>{}), call(std::complex<double>{});
}

}  // namespace

TEST_CASE("averages do not overflow on the way, with any algorithm") {
  Lot lot{1, 4};
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const bool boards : {true, false}) {
      if (ranks > 3 && !lot.draws()) continue;
      CAPTURE(boards);
      run_ranks({.ranks = ranks, .boards = boards}, [&](Communicator& comm) {
        with_all_types([&]<class T>(T) { with_all_algorithms<T>(comm, boards, 37); });
      });
    }
  }
}

TEST_CASE("averages that take several rounds of a board or pieces of a link do not overflow either") {
  for (const bool boards : {true, false}) {
    run_ranks({.ranks = 3, .kind = Kind::shm, .boards = boards}, [&](Communicator& comm) {
      for (const std::string_view algorithm : {"direct", "ring"}) {
        all_reduces<std::int8_t>(comm, algorithm, 150'001);
        all_reduces<std::uint64_t>(comm, algorithm, 20'001);
        all_reduces<f16>(comm, algorithm, 70'001);
        all_reduces<float>(comm, algorithm, 35'001);
      }
    });
  }
}

TEST_CASE("averages in allocated memory do not overflow either") {
  run_ranks({.ranks = 3, .kind = Kind::shm}, [](Communicator& comm) {
    with_all_types([&]<class T>(T) {
      constexpr std::size_t count = 16'401;
      const SharedArray<T> one = allocate<T>(comm, count), other = allocate<T>(comm, count);
      const std::vector<T> mine = elements<T>(comm, 0, count);
      std::copy(mine.begin(), mine.end(), one.begin());
      comm.all_reduce(one, other, avg);
      CHECK(are_averages<T>(std::span<const T>{other.data(), count}, comm.size(), 0));
      comm.all_reduce(one, avg);
      CHECK(std::memcmp(one.data(), other.data(), count * sizeof(T)) == 0);
      comm.barrier();
    });
  });
}

TEST_CASE("averages of persistent calls do not overflow either, at any start") {
  run_ranks({.ranks = 3, .boards = false}, [](Communicator& comm) {
    std::vector<std::int16_t> in(1000), out(1000);
    Persistent call = comm.prepare().all_reduce(in, out, avg, {.algorithm = "ring"});
    for (const std::int16_t value : {std::int16_t{32767}, std::int16_t{-32768}, std::int16_t{7}}) {
      std::ranges::fill(in, value);
      call.run();
      CHECK(std::ranges::count(out, value) == std::ssize(out));
    }
  });
}

TEST_CASE("a plan that reads its input after it has copied it makes averages, in place, too") {
  std::string plan = "tutti-plans 1\nall_reduce copy-first ranks 2 root 0 pipeline 1\n";
  for (const std::string peer : {"1", "0"}) {
    plan += peer == "1" ? "rank 0\n" : "rank 1\n";
    plan += "copy o0+2 i0+2\nsend " + peer + " i0+2 after 0\nrecv_reduce " + peer + " o0+2 o0+2 after 0 1\n";
  }
  run_ranks({.ranks = 2, .boards = false, .plan = plan},
            [](Communicator& comm) { all_reduces<float>(comm, "copy-first", 1001); });
}

TEST_CASE("the average of equal numbers of f16 is that number, with all algorithms") {
  for (const int ranks : {3, 6}) {
    run_ranks({.ranks = ranks, .boards = false}, [&](Communicator& comm) {
      std::vector<f16> all(0x7c00);
      for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
      for (const algorithms::Entry& entry : algorithms::catalogue(Collective::all_reduce)) {
        CAPTURE(std::string{entry.name});
        std::vector<f16> data = all;
        comm.all_reduce(data, avg, {.algorithm = entry.name});
        CHECK(data == all);
      }
    });
  }
}

}  // namespace tutti::testing
