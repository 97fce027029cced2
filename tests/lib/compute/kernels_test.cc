#include "lib/compute/kernels.h"

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tutti/error.h"

using namespace tutti;
using compute::Table;

namespace {

using Bytes = std::vector<unsigned char>;

constexpr std::uint64_t trailing_guard_size = 64;

std::vector<DataType> all_types() {
  std::vector<DataType> types;
  for (int i = 0; i < data_type_count; ++i) types.push_back(static_cast<DataType>(i));
  return types;
}

/// Those that combine elements as they are; averages have kernels of their own.
std::vector<OpKind> kernel_ops() {
  std::vector<OpKind> ops;
  for (int i = 0; i < compute::op_count; ++i)
    if (static_cast<OpKind>(i) != OpKind::avg) ops.push_back(static_cast<OpKind>(i));
  return ops;
}

template <class T>
Bytes bytes_of(std::initializer_list<T> values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

/// Bit patterns that arithmetic likes to get wrong.
Bytes special_values(DataType type) {
  switch (type) {
    case DataType::boolean:
      return {0, 1, 2, 0x80, 0xff};
    case DataType::f16:
      return bytes_of<std::uint16_t>({0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0xbc00, 0x7bff, 0xfbff, 0x7c00,
                                      0xfc00, 0x7e00, 0xfe01, 0x7c01, 0x3c01, 0x1400});
    case DataType::bf16:
      return bytes_of<std::uint16_t>({0x0000, 0x8000, 0x0001, 0x807f, 0x0080, 0x3f80, 0xbf80, 0x7f7f, 0xff7f, 0x7f80,
                                      0xff80, 0x7fc0, 0xffc1, 0x7f81, 0x3f81, 0x3b80});
    case DataType::f32:
    case DataType::c64:
      return bytes_of<std::uint32_t>({0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x3f800000, 0xbf800000,
                                      0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001,
                                      0x7f800001, 0x3f800001});
    case DataType::f64:
    case DataType::c128:
      return bytes_of<std::uint64_t>({0x0, 0x8000000000000000, 0x1, 0x3ff0000000000000, 0xbff0000000000000,
                                      0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
                                      0x7ff8000000000000, 0xfff8000000000001, 0x7ff0000000000001});
    default: {
      Bytes bytes;  // zero, one, minus one, largest, smallest
      const std::size_t size = size_of(type);
      for (const int pattern : {0, 1, 2, 3, 4}) {
        Bytes value(size, pattern == 2 || pattern == 3 ? 0xff : 0x00);
        if (pattern == 1) value.front() = 1;
        if (pattern == 3) value.back() = 0x7f;
        if (pattern == 4) value.back() = 0x80;
        bytes.insert(bytes.end(), value.begin(), value.end());
      }
      return bytes;
    }
  }
}

/// Random bits, every third element a special value, behind `offset` bytes that make it misaligned.
Bytes random_elements(DataType type, std::size_t count, std::size_t offset, std::mt19937& random) {
  const std::size_t part = type == DataType::c64 || type == DataType::c128 ? size_of(type) / 2 : size_of(type);
  const Bytes special = special_values(type);
  Bytes bytes(offset + count * size_of(type));
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  for (std::size_t i = offset; i + part <= bytes.size(); i += part) {
    if (random() % 3 == 0) std::memcpy(&bytes[i], &special[random() % (special.size() / part) * part], part);
  }
  return bytes;
}

std::vector<std::size_t> awkward_counts() {
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i <= 70; ++i) counts.push_back(i);
  counts.insert(counts.end(), {127, 128, 129, 255, 1000, 1037});
  return counts;
}

/// Runs `call(table, dst)` with the reference and with `table` on equal memory, and compares all of it: the result, and
/// the bytes around it that must not change.
template <class Call>
bool agrees_with_reference(const Table& table, const Bytes& before, std::size_t offset, Call call) {
  Bytes expected = before, actual = before;
  expected.resize(before.size() + trailing_guard_size, 0xa5);
  actual.resize(before.size() + trailing_guard_size, 0xa5);
  call(compute::reference_table(), expected.data() + offset);
  call(table, actual.data() + offset);
  return expected == actual;
}

struct Case {
  DataType type;
  std::size_t count;
  std::size_t offset;
  Bytes left, right, old;
};

template <class Check>
void for_every_case(Check check) {
  std::mt19937 random{20240229};
  for (const DataType type : all_types()) {
    for (const std::size_t count : awkward_counts()) {
      const std::size_t offset = random() % 9;
      const Case one{type,
                     count,
                     offset,
                     random_elements(type, count, offset, random),
                     random_elements(type, count, offset, random),
                     random_elements(type, count, offset, random)};
      for (const Table* table : compute::available_tables()) {
        CAPTURE(std::string{table->isa});
        CAPTURE(std::string{name_of(type)});
        CAPTURE(count);
        CAPTURE(offset);
        check(*table, one);
      }
    }
  }
}

}  // namespace

TEST_CASE("every kernel of every instruction set equals the reference bit for bit, in place or not") {
  for_every_case([](const Table& table, const Case& c) {
    for (const OpKind kind : kernel_ops()) {
      if (!compute::supports(c.type, kind)) continue;
      CAPTURE(std::string{name_of(kind)});
      const auto* left = c.left.data() + c.offset;
      const auto* right = c.right.data() + c.offset;
      CHECK(agrees_with_reference(table, c.old, c.offset, [&](const Table& t, unsigned char* dst) {
        compute::combine(t, c.type, kind)(dst, left, right, c.count);
      }));
      CHECK(agrees_with_reference(table, c.left, c.offset, [&](const Table& t, unsigned char* dst) {
        compute::combine(t, c.type, kind)(dst, dst, right, c.count);
      }));
      CHECK(agrees_with_reference(table, c.right, c.offset, [&](const Table& t, unsigned char* dst) {
        compute::combine(t, c.type, kind)(dst, left, dst, c.count);
      }));
    }
  });
}

TEST_CASE("scaling equals the reference bit for bit, in place or not") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  static const double nan =
      std::nan("0xfffffffffffff");  // of all payload bits, so that nothing may carry into the sign
  for_every_case([](const Table& table, const Case& c) {
    if (!compute::supports(c.type, OpKind::premul_sum)) return;
    for (const double factor : {0.0, 1.0, -0.1, 1e30, 0.5, infinity, nan, -nan}) {
      CAPTURE(factor);
      CHECK(agrees_with_reference(table, c.old, c.offset, [&](const Table& t, unsigned char* dst) {
        compute::kernels(t, c.type).scale(dst, c.left.data() + c.offset, c.count, factor);
      }));
      CHECK(agrees_with_reference(table, c.left, c.offset, [&](const Table& t, unsigned char* dst) {
        compute::kernels(t, c.type).scale(dst, dst, c.count, factor);
      }));
    }
  });
}

TEST_CASE("averages equal the reference bit for bit, and so does every sum on the way, in place or not") {
  for_every_case([](const Table& table, const Case& c) {
    if (!compute::supports(c.type, OpKind::avg)) return;
    const auto* const left = c.left.data() + c.offset;
    const auto* const right = c.right.data() + c.offset;
    const std::size_t size = compute::kernels(table, c.type).average.size;
    REQUIRE(size == compute::kernels(compute::reference_table(), c.type).average.size);
    const bool wide = size != size_of(c.type);
    const bool nans_may_differ = c.type == DataType::f16;  // in sums, but not in averages
    const Bytes no_sums(c.count * size + c.offset, 0x5a);
    for (const int n : {4, 5, 7, 1000, 24576}) {
      CAPTURE(n);
      const double factor = 0.125, divisor = wide ? n : n / 8.0;
      const auto left_sum = [&](const Table& t, unsigned char* dst) {
        compute::kernels(t, c.type).average.begin(dst, left, c.count, factor);
      };
      const auto whole_sum = [&](const Table& t, unsigned char* dst) {
        const compute::Average& average = compute::kernels(t, c.type).average;
        Bytes other(c.count * size);
        average.begin(dst, left, c.count, factor);
        average.contribute(dst, dst, right, c.count, factor);
        average.begin(other.data(), right, c.count, factor);
        average.contribute(other.data(), other.data(), left, c.count, factor);
        average.add(dst, dst, other.data(), c.count);
      };
      const auto average = [&](const Table& t, unsigned char* dst) {
        Bytes sums(c.count * size);
        whole_sum(t, sums.data());
        compute::kernels(t, c.type).average.finish(dst, sums.data(), c.count, divisor);
      };
      if (!nans_may_differ) CHECK(agrees_with_reference(table, no_sums, c.offset, left_sum));
      if (!nans_may_differ) CHECK(agrees_with_reference(table, no_sums, c.offset, whole_sum));
      CHECK(agrees_with_reference(table, c.old, c.offset, average));
      if (wide) continue;
      CHECK(agrees_with_reference(table, c.left, c.offset, [&](const Table& t, unsigned char* dst) {
        compute::kernels(t, c.type).average.begin(dst, dst, c.count, factor);
      }));
      CHECK(agrees_with_reference(table, c.left, c.offset, [&](const Table& t, unsigned char* dst) {
        compute::kernels(t, c.type).average.contribute(dst, right, dst, c.count, factor);
      }));
      CHECK(agrees_with_reference(table, c.left, c.offset, [&](const Table& t, unsigned char* dst) {
        compute::kernels(t, c.type).average.finish(dst, dst, c.count, divisor);
      }));
    }
  });
}

TEST_CASE("integer division is exact next to every multiple of the divisor") {
  __extension__ using Wide = __int128;
  const auto check = [](auto zero, int n) {
    using T = decltype(zero);
    const compute::Average& any = compute::kernels(compute::reference_table(), data_type_of<T>).average;
    std::vector<Wide> exact;
    Bytes sums;
    std::mt19937_64 random{7};
    for (int i = 0; i < 3000; ++i) {
      for (const int delta : {-1, 0, 1}) {
        const T quotient = i == 0   ? std::numeric_limits<T>::max()
                           : i == 1 ? std::numeric_limits<T>::min()
                                    : static_cast<T>(random());
        const Wide total = Wide{quotient} * n + delta;
        const Wide most = Wide{std::numeric_limits<T>::max()} * n, least = Wide{std::numeric_limits<T>::min()} * n;
        if (total < least || total > most) continue;
        exact.push_back(total);
        const auto* const bytes = reinterpret_cast<const unsigned char*>(&total);  // the low ones come first
        sums.insert(sums.end(), bytes, bytes + any.size);
      }
    }
    for (const Table* table : compute::available_tables()) {
      CAPTURE(std::string{table->isa});
      std::vector<T> divided(exact.size());
      compute::kernels(*table, data_type_of<T>).average.finish(divided.data(), sums.data(), divided.size(), n);
      for (std::size_t i = 0; i < exact.size(); ++i) REQUIRE(divided[i] == static_cast<T>(exact[i] / n));
    }
  };
  for (const int n : {1, 2, 3, 5, 7, 10, 127, 1000, 24576, 65535, 65536, 8388607, 2147483647}) {
    CAPTURE(n);
    if (n <= 8388607) check(std::int8_t{}, n);
    if (n <= 8388607) check(std::uint8_t{}, n);
    if (n <= 65536) check(std::int16_t{}, n);
    if (n <= 65536) check(std::uint16_t{}, n);
    check(std::int32_t{}, n);
    check(std::uint32_t{}, n);
    check(std::int64_t{}, n);
    check(std::uint64_t{}, n);
  }
}

TEST_CASE("sums of f16 and bf16 are the exact sum rounded once, for every pattern") {
  const auto check = [](auto zero) {
    using Half = decltype(zero);
    std::vector<Half> left(65536), right(65536), total(65536);
    std::mt19937 random{11};
    for (std::size_t i = 0; i < left.size(); ++i) {
      left[i].bits = static_cast<std::uint16_t>(i);
      right[i].bits = static_cast<std::uint16_t>(random());
    }
    for (const Table* table : compute::available_tables()) {
      CAPTURE(std::string{table->isa});
      compute::combine(*table, data_type_of<Half>, OpKind::sum)(total.data(), left.data(), right.data(), total.size());
      for (std::size_t i = 0; i < total.size(); ++i) {
        const double exact = double{static_cast<float>(left[i])} + double{static_cast<float>(right[i])};
        const double result = static_cast<float>(total[i]);
        if (std::isnan(exact) || std::isinf(exact)) {
          REQUIRE((std::isnan(exact) ? total[i].bits == 0xffff : result == exact));
          continue;
        }
        // Nothing of the type lies nearer to the exact sum than the result: neither of its neighbours does.
        for (const int step : {-1, 1}) {
          Half neighbour = total[i];
          neighbour.bits = static_cast<std::uint16_t>(neighbour.bits + step);
          const double other = static_cast<float>(neighbour);
          if (std::isfinite(other) && std::isfinite(result))
            REQUIRE(std::abs(result - exact) <= std::abs(other - exact));
        }
      }
    }
  };
  check(f16{});
  check(bf16{});
}

TEST_CASE("every op gives the same bits when its operands change sides") {
  for_every_case([](const Table& table, const Case& c) {
    for (const OpKind kind : kernel_ops()) {
      if (!compute::supports(c.type, kind)) continue;
      CAPTURE(std::string{name_of(kind)});
      Bytes one(c.count * size_of(c.type)), other(one.size());
      const auto combine = compute::combine(table, c.type, kind);
      combine(one.data(), c.left.data() + c.offset, c.right.data() + c.offset, c.count);
      combine(other.data(), c.right.data() + c.offset, c.left.data() + c.offset, c.count);
      CHECK(one == other);
    }
  });
}

TEST_CASE("min and max propagate NaN and order the zeros") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> left{nan, 1.0f, -0.0f, 0.0f, -1.0f};
  const std::vector<float> right{1.0f, nan, 0.0f, -0.0f, -2.0f};
  for (const Table* table : compute::available_tables()) {
    std::vector<float> least(5), most(5);
    compute::combine(*table, DataType::f32, OpKind::min)(least.data(), left.data(), right.data(), 5);
    compute::combine(*table, DataType::f32, OpKind::max)(most.data(), left.data(), right.data(), 5);
    CHECK((std::isnan(least[0]) && std::isnan(least[1]) && std::isnan(most[0]) && std::isnan(most[1])));
    CHECK((std::signbit(least[2]) && std::signbit(least[3]) && !std::signbit(most[2]) && !std::signbit(most[3])));
    CHECK(least[4] == -2.0f);
    CHECK(most[4] == -1.0f);
  }
}

TEST_CASE("a table has a kernel exactly where the pair is supported") {
  std::vector<const Table*> tables = compute::available_tables();
  tables.push_back(&compute::reference_table());
  for (const Table* table : tables) {
    for (const DataType type : all_types()) {
      for (const OpKind kind : kernel_ops()) {
        CAPTURE(std::string{name_of(type)});
        CAPTURE(std::string{name_of(kind)});
        CHECK((compute::combine(*table, type, kind) != nullptr) == compute::supports(type, kind));
        CHECK((compute::fold(*table, type, kind) != nullptr) == compute::supports(type, kind));
      }
      CHECK((compute::kernels(*table, type).scale != nullptr) == compute::supports(type, OpKind::premul_sum));
      CHECK((compute::kernels(*table, type).average.size != 0) == compute::supports(type, OpKind::avg));
    }
  }
}

TEST_CASE("a refused pair names type, op and what the type offers") {
  const auto refusal = [](DataType type, const Op& op) -> std::string {
    try {
      compute::require(type, op);
    } catch (const Error& error) {
      return std::string{name_of(error.code())} + ": " + error.what();
    }
    return "";
  };
  CHECK(refusal(DataType::c64, tutti::min).starts_with("unsupported: op min has no meaning for elements of type c64"));
  CHECK(refusal(DataType::c64, tutti::min).find("sum, product, avg, premul_sum") != std::string::npos);
  CHECK(refusal(DataType::f32, tutti::band).find("sum, product, min, max, avg, premul_sum") != std::string::npos);
  CHECK(refusal(DataType::i32, premul_sum(2)) != "");
  CHECK(refusal(DataType::boolean, tutti::avg) != "");
  CHECK(refusal(DataType::u64, tutti::avg) == "");
  const Op user = user_op<float>([](float a, float b) { return a + b; });
  CHECK(refusal(DataType::f32, user) == "");
  CHECK(
      refusal(DataType::f64, user) ==
      "invalid_argument: the user op was written for elements of type f32, but the buffer holds f64; make one for the "
      "buffer's element type");
}

TEST_CASE("the instruction set can be forced by name, and a wrong name is told from a missing one") {
  CHECK(std::string{compute::choose_table("generic").isa} == "generic");
  CHECK(&compute::choose_table() == compute::available_tables().back());
  for (const Table* table : compute::available_tables()) CHECK(&compute::choose_table(table->isa) == table);
  try {
    compute::choose_table("avx-2");
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(std::string{error.what()}.find("Did you mean \"avx2\"?") != std::string::npos);
  }
}
