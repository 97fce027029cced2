#include "transport/frame.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/support/documented.h"

namespace {

using namespace tutti::transport;

const Frame example{.kind = FrameKind::data,
                    .data_type = 11,
                    .length = 65536,
                    .operation = 42,
                    .collective = 0,
                    .op = 0,
                    .root = 0,
                    .algorithm = 0x9d2c5680,
                    .count = 1048576,
                    .history = 0x89abcdef};

FrameBytes with_byte(const Frame& frame, std::size_t position, int value) {
  FrameBytes bytes = encode(frame);
  bytes[position] = static_cast<std::byte>(value);
  return bytes;
}

}  // namespace

TEST_CASE("a frame survives encoding and decoding, whatever its fields are") {
  constexpr std::uint32_t high = 0xf0f1f2f3;
  constexpr auto lowest = std::numeric_limits<std::int32_t>::min();
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::vector<Frame> frames{
      {.kind = FrameKind::data,
       .data_type = 0xfe,
       .checksum = high,
       .length = max_length,
       .operation = 0xfffefdfc,
       .collective = 0xff,
       .op = 0xfd,
       .variable = true,
       .root = lowest,
       .algorithm = high + 1,
       .count = most,
       .history = 0x80000001},
      {.kind = FrameKind::eager, .data_type = 0xfe, .checksum = high, .length = 7, .tag = lowest, .elements = most},
      {.kind = FrameKind::request, .data_type = 1, .checksum = high, .tag = 9, .elements = most, .sender_slot = high},
      {.kind = FrameKind::grant, .sender_slot = high, .receiver_slot = high + 1},
      {.kind = FrameKind::grant, .sender_slot = high, .refused = true},
      {.kind = FrameKind::bulk, .data_type = 1, .length = max_length, .tag = 9, .elements = 8, .receiver_slot = high},
      {.kind = FrameKind::credit, .credit = most},
      {.kind = FrameKind::abort, .length = 9, .operation = high, .error = 0xfe, .culprit = -1}};
  for (int kind = 0; kind < frame_kind_count; ++kind) frames.push_back({.kind = static_cast<FrameKind>(kind)});
  for (const Frame& frame : frames) {
    CAPTURE(static_cast<int>(frame.kind));
    CHECK(decode(encode(frame)) == frame);
    CHECK(frame_of(words_of(frame)) == frame);
  }
}

TEST_CASE("a call on a board keeps what identifies it, also the memory that it is in") {
  Frame call = example;
  call.length = 0;
  call.history = 0;
  call.window = 0x89abcdef;
  CHECK(decode(call_words_of(call)) == call);
  CHECK(frame_of(call_words_of(call)) == call);
  CHECK(operation_of(call_words_of(call)) == 42);
  CHECK(decode(encode(call))->window == 0);  // such a call has no messages
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
  CHECK_FALSE(decode(with_byte(example, 0, 'H')));                   // magic
  CHECK_FALSE(decode(with_byte(example, 1, 'H')));                   //
  CHECK_FALSE(decode(with_byte(example, 2, protocol_version - 1)));  // version
  CHECK_FALSE(decode(with_byte(example, 3, frame_kind_count)));      // kind
  CHECK_FALSE(decode(with_byte(example, 3, 0xff)));                  //
  CHECK(decode(with_byte(example, 7, 1)));                           // variable
  CHECK_FALSE(decode(with_byte(example, 7, 2)));                     //
  CHECK_FALSE(decode(with_byte({.kind = FrameKind::eager}, 7, 1)));
  CHECK_FALSE(decode(with_byte(example, 38, 2)));  // length 2^49
  CHECK_FALSE(decode(with_byte(example, 39, 0x80)));
}

TEST_CASE("a field is refused in a frame whose kind does not have it") {
  struct Field {
    const char* name;
    std::size_t offset, size;
    std::string kinds;  // that have it
  };
  const Field fields[] = {
      {"collective", 4, 1, "0"},   {"data type or error", 5, 1, "01246"},   {"op", 6, 1, "0"},
      {"number", 8, 4, "02346"},   {"root or tag", 12, 4, "01246"},         {"algorithm", 16, 4, "0"},
      {"checksum", 20, 4, "0124"}, {"amount, lower half", 24, 4, "012345"}, {"amount, upper half", 28, 4, "01245"},
      {"history", 40, 4, "0"}};
  for (const Field& field : fields) {
    for (int kind = 0; kind < frame_kind_count; ++kind) {
      CAPTURE(field.name);
      CAPTURE(kind);
      for (std::size_t position = field.offset; position < field.offset + field.size; ++position)
        CHECK(decode(with_byte({.kind = static_cast<FrameKind>(kind)}, position, 1)).has_value() ==
              (field.kinds.find(static_cast<char>('0' + kind)) != std::string::npos));
    }
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
