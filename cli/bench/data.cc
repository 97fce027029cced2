#include "cli/bench/data.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tutti::cli::bench {
namespace {

using Value = std::complex<double>;  // integers that every type can represent, or the quotient of avg

template <class T>
constexpr bool is_complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

/// Every integer up to here is exact in the type.
double exact_up_to(DataType type) {
  switch (type) {
    case DataType::boolean:
      return 1;
    case DataType::i8:
      return 127;
    case DataType::u8:
      return 255;
    case DataType::bf16:
      return 256;
    case DataType::f16:
      return 2048;
    case DataType::i16:
      return 32767;
    case DataType::u16:
      return 65535;
    default:
      return 1 << 24;
  }
}

double epsilon(DataType type) {
  switch (type) {
    case DataType::bf16:
      return 0x1p-8;
    case DataType::f16:
      return 0x1p-11;
    case DataType::f32:
    case DataType::c64:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

bool has_sign(DataType type) {
  return type != DataType::boolean && type != DataType::u8 && type != DataType::u16 && type != DataType::u32 &&
         type != DataType::u64;
}

bool is_floating(DataType type) { return static_cast<int>(type) > static_cast<int>(DataType::boolean); }
bool is_sum(OpKind op) { return op == OpKind::sum || op == OpKind::avg || op == OpKind::premul_sum; }

template <class T>
T encode(Value value) {
  if constexpr (std::is_same_v<T, bool>)
    return value.real() != 0;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::int64_t>(value.real()));
  else if constexpr (is_complex<T>)
    return T{static_cast<typename T::value_type>(value.real()), static_cast<typename T::value_type>(value.imag())};
  else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>)
    return T{static_cast<float>(value.real())};
  else
    return static_cast<T>(value.real());
}

template <class T>
Value decode(T value) {
  if constexpr (is_complex<T>)
    return {static_cast<double>(value.real()), static_cast<double>(value.imag())};
  else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>)
    return static_cast<double>(static_cast<float>(value));
  else
    return static_cast<double>(value);
}

template <class T>
Value divided(Value sum, int ranks) {
  if constexpr (std::is_integral_v<T>) {
    const std::int64_t towards_zero = static_cast<std::int64_t>(sum.real()) / std::max(ranks, 1);
    return static_cast<double>(towards_zero);
  } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>) {
    return sum / static_cast<double>(ranks);
  } else {
    const auto n = static_cast<float>(ranks);
    return {static_cast<float>(sum.real()) / n, static_cast<float>(sum.imag()) / n};
  }
}

/// The number of different values of a summand for which the sum of all ranks stays exact.
int levels(DataType type, const Reduction& reduction, int ranks) {
  const double room = exact_up_to(type) / (ranks * std::max(1.0, reduction.factor));
  return static_cast<int>(std::clamp(room, 1.0, 60.0)) + 1;
}

struct Source {
  DataType type;
  Reduction reduction;
  int ranks;
  int repetition;

  Value at(int rank, std::size_t i) const {
    const int mixed = static_cast<int>(i) * 7 + rank * 13 + repetition * 29 + 3;
    return type == DataType::c64 || type == DataType::c128 ? Value{part(rank, i, mixed), imaginary(rank, i, mixed)}
                                                           : part(rank, i, mixed);
  }

 private:
  double imaginary(int rank, std::size_t i, int mixed) const {
    return reduction.none || is_sum(reduction.op) ? part(rank, i, mixed + 5) : 0;
  }

  double part(int rank, std::size_t i, int mixed) const {
    if (reduction.none) return type == DataType::boolean ? mixed % 2 : mixed % 97;
    if (type == DataType::boolean) return truth(mixed);
    switch (reduction.op) {
      case OpKind::product: {  // at most six factors of two
        const bool may = (static_cast<int>(i) + rank) % ranks < 6;
        return may && mixed % 3 == 0 ? 2 : 1;
      }
      case OpKind::min:
      case OpKind::max:
        return mixed % 97 - (has_sign(type) ? 48 : 0);
      case OpKind::band:
      case OpKind::bor:
      case OpKind::bxor:
        return mixed * 37 % 128;
      default: {
        const int count = levels(type, reduction, ranks);
        return mixed % count - (has_sign(type) ? count / 2 : 0);
      }
    }
  }

  /// Mostly false for ops that one true decides, mostly true for ops that one false decides.
  double truth(int mixed) const {
    const bool rare = mixed % 5 == 0;
    const bool one_false_decides =
        reduction.op == OpKind::product || reduction.op == OpKind::min || reduction.op == OpKind::band;
    return rare != one_false_decides ? 1 : 0;
  }
};

Value combined(DataType type, OpKind op, Value a, Value b) {
  const double x = a.real(), y = b.real();
  if (type == DataType::boolean) {
    if (op == OpKind::bxor) return x != y ? 1 : 0;
    return op == OpKind::product || op == OpKind::min || op == OpKind::band ? std::min(x, y) : std::max(x, y);
  }
  switch (op) {
    case OpKind::product:
      return a * b;
    case OpKind::min:
      return std::min(x, y);
    case OpKind::max:
      return std::max(x, y);
    case OpKind::band:
      return static_cast<double>(static_cast<int>(x) & static_cast<int>(y));
    case OpKind::bor:
      return static_cast<double>(static_cast<int>(x) | static_cast<int>(y));
    case OpKind::bxor:
      return static_cast<double>(static_cast<int>(x) ^ static_cast<int>(y));
    default:
      return a + b;
  }
}

template <class Make>
Pattern make_pattern(DataType type, Make make) {
  Pattern pattern{type, Bytes(period * size_of(type)), 0};
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < period; ++i) {
      const T element = make(zero, i);
      std::memcpy(&pattern.bytes[i * sizeof(T)], &element, sizeof(T));
    }
  });
  return pattern;
}

/// Calls `piece(offset in buffer, offset in pattern, length)`, all in bytes, until the buffer is covered.
template <class Piece>
void tile(std::size_t bytes, const Pattern& pattern, std::size_t first, Piece piece) {
  std::size_t at = first % period * size_of(pattern.type);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t length = std::min(bytes - done, pattern.bytes.size() - at);
    piece(done, at, length);
    done += length;
    at = 0;
  }
}

std::size_t different(const std::byte* found, const std::byte* expected, std::size_t length, const Pattern& pattern) {
  std::size_t wrong = 0;
  with_type(pattern.type, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t at = 0; at < length; at += sizeof(T)) {
      if (std::memcmp(found + at, expected + at, sizeof(T)) == 0) continue;
      if constexpr (std::is_integral_v<T>) {
        ++wrong;
      } else {
        T a, b;
        std::memcpy(&a, found + at, sizeof(T));
        std::memcpy(&b, expected + at, sizeof(T));
        const bool near = pattern.tolerance > 0 && std::abs(decode(a) - decode(b)) <= pattern.tolerance;
        wrong += near ? 0 : 1;
      }
    }
  });
  return wrong;
}

}  // namespace

Pattern input_pattern(DataType type, const Reduction& reduction, int rank, int ranks, int repetition) {
  const Source source{type, reduction, ranks, repetition};
  return make_pattern(type, [&](auto zero, std::size_t i) { return encode<decltype(zero)>(source.at(rank, i)); });
}

Pattern result_pattern(DataType type, const Reduction& reduction, int folded, int ranks, int repetition) {
  const Source source{type, reduction, ranks, repetition};
  Pattern pattern = make_pattern(type, [&](auto zero, std::size_t i) {
    using T = decltype(zero);
    Value result = source.at(0, i);
    for (int rank = 1; rank < folded; ++rank) result = combined(type, reduction.op, result, source.at(rank, i));
    if (reduction.op == OpKind::premul_sum) result *= reduction.factor;
    if (reduction.op == OpKind::avg) result = divided<T>(result, ranks);
    return encode<T>(result);
  });
  const double largest = ranks * std::max(1.0, reduction.factor) * levels(type, reduction, ranks);
  if (is_floating(type) && is_sum(reduction.op) && largest > 2 * exact_up_to(type))
    pattern.tolerance = ranks * epsilon(type) * largest;
  return pattern;
}

void fill(std::span<std::byte> buffer, const Pattern& pattern, std::size_t first) {
  tile(buffer.size(), pattern, first, [&](std::size_t done, std::size_t at, std::size_t length) {
    std::memcpy(buffer.data() + done, pattern.bytes.data() + at, length);
  });
}

std::size_t count_wrong(std::span<const std::byte> buffer, const Pattern& pattern, std::size_t first) {
  std::size_t wrong = 0;
  tile(buffer.size(), pattern, first, [&](std::size_t done, std::size_t at, std::size_t length) {
    const std::byte* const found = buffer.data() + done;
    const std::byte* const expected = pattern.bytes.data() + at;
    if (std::memcmp(found, expected, length) != 0) wrong += different(found, expected, length, pattern);
  });
  return wrong;
}

void poison(std::span<std::byte> buffer) { std::fill(buffer.begin(), buffer.end(), std::byte{0xa5}); }

}  // namespace tutti::cli::bench
