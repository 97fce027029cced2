#include "transport/frame.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/support/documented.h"

namespace {

using namespace tutti::transport;

const Frame example{.kind = FrameKind::data,
                    .collective = 0,
                    .data_type = 11,
                    .op = 0,
                    .operation = 42,
                    .root = 0,
                    .algorithm = 0x9d2c5680,
                    .count = 1048576,
                    .length = 65536,
                    .history = 0x89abcdef};

FrameBytes with_byte(const Frame& frame, std::size_t position, int value) {
  FrameBytes bytes = encode(frame);
  bytes[position] = static_cast<std::byte>(value);
  return bytes;
}

}  // namespace

TEST_CASE("a frame survives encoding and decoding, whatever its fields are") {
  for (int kind = 0; kind < frame_kind_count; ++kind) {
    CAPTURE(kind);
    const bool may_have = kind == 0 || kind == 1 || kind == 4;  // a checksum: what has a payload of the user's
    const Frame low{.kind = static_cast<FrameKind>(kind)};
    const Frame high{.kind = static_cast<FrameKind>(kind),
                     .collective = 0xff,
                     .data_type = 0xfe,
                     .op = 0xfd,
                     .variable = kind == 0,
                     .operation = 0xfffefdfc,
                     .root = std::numeric_limits<std::int32_t>::min(),
                     .algorithm = 0xf0f1f2f3,
                     .checksum = may_have ? 0xf4f5f6f7 : 0,
                     .count = std::numeric_limits<std::uint64_t>::max(),
                     .length = max_length,
                     .history = kind == 0 ? 0x80000001 : 0};
    CHECK(decode(encode(low)) == low);
    CHECK(decode(encode(high)) == high);
    CHECK(frame_of(words_of(high)) == high);
  }
}

TEST_CASE("the worked example of docs/wire.md is what we send and understand") {
  const std::vector<std::byte> documented = tutti::testing::documented_bytes("frame");
  REQUIRE(documented.size() == frame_size);
  const FrameBytes ours = encode(example);
  for (std::size_t i = 0; i < frame_size; ++i) CHECK_MESSAGE(documented[i] == ours[i], "byte " << i);
  CHECK(decode(std::span(documented).first<frame_size>()) == example);
}

TEST_CASE("a header with any foreign part is refused") {
  CHECK(decode(encode(example)));
  CHECK_FALSE(decode(with_byte(example, 0, 'H')));               // magic
  CHECK_FALSE(decode(with_byte(example, 1, 'H')));               //
  CHECK_FALSE(decode(with_byte(example, 2, 1)));                 // version
  CHECK_FALSE(decode(with_byte(example, 3, frame_kind_count)));  // kind
  CHECK_FALSE(decode(with_byte(example, 3, 0xff)));              //
  CHECK(decode(with_byte(example, 7, 1)));                       // variable
  CHECK_FALSE(decode(with_byte(example, 7, 2)));                 //
  CHECK_FALSE(decode(with_byte({.kind = FrameKind::eager}, 7, 1)));
  CHECK_FALSE(decode(with_byte(example, 38, 2)));  // length 2^49
  CHECK_FALSE(decode(with_byte(example, 39, 0x80)));
}

TEST_CASE("a checksum is refused where there is no payload of a user's") {
  for (int kind = 0; kind < frame_kind_count; ++kind) {
    CAPTURE(kind);
    Frame frame = example;
    frame.kind = static_cast<FrameKind>(kind);
    frame.history = 0;
    for (std::size_t position = 20; position < 24; ++position)
      CHECK(decode(with_byte(frame, position, 1)).has_value() == (kind == 0 || kind == 1 || kind == 2 || kind == 4));
  }
}

TEST_CASE("a history of calls is refused where there is no call") {
  for (int kind = 0; kind < frame_kind_count; ++kind) {
    CAPTURE(kind);
    for (std::size_t position = 40; position < 44; ++position)
      CHECK(decode(with_byte({.kind = static_cast<FrameKind>(kind)}, position, 1)).has_value() == (kind == 0));
  }
}

TEST_CASE("a length of just the maximum passes and one more byte does not") {
  Frame frame = example;
  frame.length = max_length;
  CHECK(decode(encode(frame)));
  frame.length = max_length + 1;
  CHECK_FALSE(decode(encode(frame)));
}

TEST_CASE("bytes that are all equal are never a frame") {
  for (int value = 0; value < 256; ++value) {
    FrameBytes bytes;
    bytes.fill(static_cast<std::byte>(value));
    CHECK_FALSE(decode(bytes));
  }
}
