#include "tutti/types.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include "tutti/error.h"

using namespace tutti;

namespace {

/// How a 16-bit floating type divides its bits.
struct Layout {
  int mantissa;
  int bias;
};
constexpr Layout f16_layout{10, 15};
constexpr Layout bf16_layout{7, 127};

/// Value of a finite pattern, from the definition of the format.
double value_of(std::uint16_t bits, Layout layout) {
  const int exponent = (bits & 0x7fff) >> layout.mantissa;
  const int fraction = bits & ((1 << layout.mantissa) - 1);
  const int implicit = exponent == 0 ? 0 : 1 << layout.mantissa;
  const double magnitude = std::ldexp(implicit + fraction, std::max(exponent, 1) - layout.bias - layout.mantissa);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

std::uint16_t infinity(Layout layout) {
  return static_cast<std::uint16_t>(0x7fff >> layout.mantissa << layout.mantissa);
}

bool is_nan(std::uint16_t bits, Layout layout) { return (bits & 0x7fff) > infinity(layout); }

/// Every pattern comes back as it was; a signalling NaN comes back quiet.
template <class Half>
void check_round_trip(Layout layout) {
  const int quiet = 1 << (layout.mantissa - 1);
  for (int i = 0; i <= 0xffff; ++i) {
    Half half;
    half.bits = static_cast<std::uint16_t>(i);
    const auto wide = static_cast<float>(half);
    const int expected = is_nan(half.bits, layout) ? i | quiet : i;
    REQUIRE(Half{wide}.bits == expected);
    if ((i & 0x7fff) < infinity(layout)) REQUIRE(static_cast<double>(wide) == value_of(half.bits, layout));
    if ((i & 0x7fff) == infinity(layout)) REQUIRE(std::isinf(wide));
    REQUIRE(std::isnan(wide) == is_nan(half.bits, layout));
  }
}

/// Between two neighbours of the type: the nearer one wins, the even one on a tie.
template <class Half>
void check_rounding_between_neighbours(Layout layout) {
  const float up = std::numeric_limits<float>::infinity();
  for (int low = 0; low < infinity(layout); ++low) {
    const int high = low + 1;
    const double above = high == infinity(layout)  // the number that would follow if exponents went on
                             ? value_of(static_cast<std::uint16_t>(low), layout) * 2 -
                                   value_of(static_cast<std::uint16_t>(low - 1), layout)
                             : value_of(static_cast<std::uint16_t>(high), layout);
    const auto middle = static_cast<float>((value_of(static_cast<std::uint16_t>(low), layout) + above) / 2);
    const int even = low % 2 == 0 ? low : high;
    for (const int sign : {0, 0x8000}) {
      const float s = sign != 0 ? -1.0f : 1.0f;
      REQUIRE(Half{s * middle}.bits == (even | sign));
      REQUIRE(Half{s * std::nextafter(middle, 0.0f)}.bits == (low | sign));
      REQUIRE(Half{s * std::nextafter(middle, up)}.bits == (high | sign));
    }
  }
}

}  // namespace

TEST_CASE("all 65,536 patterns of f16 survive the way to float and back") { check_round_trip<f16>(f16_layout); }

TEST_CASE("all 65,536 patterns of bf16 survive the way to float and back") { check_round_trip<bf16>(bf16_layout); }

TEST_CASE("f16 rounds to nearest even between any two neighbours, up to infinity") {
  check_rounding_between_neighbours<f16>(f16_layout);
}

TEST_CASE("bf16 rounds to nearest even between any two neighbours, up to infinity") {
  check_rounding_between_neighbours<bf16>(bf16_layout);
}

TEST_CASE("conversions to the 16-bit types round to nearest even in all modes of the thread") {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    const std::uint16_t tiny = f16{0x1.8p-24f}.bits, small = f16{-0x1.4p-24f}.bits, third = f16{1.0f / 3}.bits;
    const std::uint16_t brain = bf16{0x1.018p-130f}.bits;
    std::fesetround(FE_TONEAREST);
    CHECK(tiny == 0x0002);
    CHECK(small == 0x8001);
    CHECK(third == 0x3555);
    CHECK(brain == 0x0008);
  }
}

TEST_CASE("values beyond the range of f16 become infinity or zero with their sign") {
  CHECK(f16{1e30f}.bits == 0x7c00);
  CHECK(f16{-std::numeric_limits<float>::infinity()}.bits == 0xfc00);
  CHECK(f16{1e-30f}.bits == 0x0000);
  CHECK(f16{-std::numeric_limits<float>::denorm_min()}.bits == 0x8000);
  CHECK(bf16{std::numeric_limits<float>::max()}.bits == 0x7f80);
  CHECK(bf16{-0.0f}.bits == 0x8000);
}

TEST_CASE("a NaN whose payload lies in the dropped bits stays a NaN") {
  const auto low_payload = std::bit_cast<float>(0x7f800001u);
  CHECK(f16{low_payload}.bits == 0x7e00);
  CHECK(bf16{low_payload}.bits == 0x7fc0);
  CHECK(f16{std::bit_cast<float>(0xffc02000u)}.bits == 0xfe01);
}

TEST_CASE("sizes of the data types are those of the C++ types they stand for") {
  CHECK(size_of(data_type_of<std::int8_t>) == 1);
  CHECK(size_of(data_type_of<bool>) == sizeof(bool));
  CHECK(size_of(data_type_of<std::uint16_t>) == 2);
  CHECK(size_of(data_type_of<f16>) == sizeof(f16));
  CHECK(size_of(data_type_of<bf16>) == sizeof(bf16));
  CHECK(size_of(data_type_of<int>) == sizeof(int));
  CHECK(size_of(data_type_of<float>) == sizeof(float));
  CHECK(size_of(data_type_of<std::size_t>) == sizeof(std::size_t));
  CHECK(size_of(data_type_of<double>) == sizeof(double));
  CHECK(size_of(data_type_of<std::complex<float>>) == sizeof(std::complex<float>));
  CHECK(size_of(data_type_of<std::complex<double>>) == sizeof(std::complex<double>));
  CHECK(data_type_of<long> == data_type_of<long long>);
}

TEST_CASE("every enumerator has a name of its own, and numbers from elsewhere do not") {
  const auto distinct_names = [](auto first, int count) {
    std::set<std::string> names;
    for (int i = 0; i < count; ++i) names.insert(name_of(static_cast<decltype(first)>(i)));
    CHECK(names.count("unknown") == 0);
    CHECK(std::string{name_of(static_cast<decltype(first)>(count))} == "unknown");
    return static_cast<int>(names.size());
  };
  CHECK(distinct_names(DataType{}, data_type_count) == data_type_count);
  CHECK(distinct_names(Collective{}, collective_count) == collective_count);
  CHECK(distinct_names(OpKind{}, 10) == 10);
  CHECK(distinct_names(ErrorCode{}, error_code_count) == error_code_count);
  CHECK(std::string{name_of(DataType::boolean)} == "bool");
  CHECK(std::string{name_of(Collective::reduce_scatter)} == "reduce_scatter");
}

TEST_CASE("an error keeps its sentence, code, culprit and operation when it is thrown by value") {
  try {
    throw Error{ErrorCode::peer_lost, "rank 3 died", 3, 17};
  } catch (const std::runtime_error& caught) {
    const auto* error = dynamic_cast<const Error*>(&caught);
    REQUIRE(error != nullptr);
    CHECK(std::string{error->what()} == "rank 3 died");
    CHECK(error->code() == ErrorCode::peer_lost);
    CHECK(error->rank() == 3);
    CHECK(error->operation() == 17);
  }
  CHECK(Error{ErrorCode::timeout, "late"}.rank() == -1);
  CHECK(Error{ErrorCode::timeout, "late"}.operation() == 0);
}
