// The frame header as bytes. All integers are little-endian, whatever the host is; docs/wire.md has the table.
//
//    0      2       3    4          5         6  7  8         12   16        20       24    32     40      44
//    magic  version kind collective data_type op v  operation root algorithm checksum count length history

#include "transport/frame.h"

#include "lib/base/little_endian.h"

namespace tutti::transport {

Frame frame_of(const FrameWords& words) {
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  const auto byte = [kinds = words[0]](int index) { return static_cast<std::uint8_t>(kinds >> 8 * index); };
  const std::uint32_t number = low(words[1]);
  const auto label = static_cast<std::int32_t>(words[1] >> 32);
  const std::uint32_t checksum = low(words[2] >> 32);
  const std::uint64_t amount = words[3];
  Frame frame{.kind = static_cast<FrameKind>(byte(3)), .length = words[4]};
  switch (frame.kind) {
    case FrameKind::data:
      frame.data_type = byte(5), frame.checksum = checksum, frame.operation = number;
      frame.collective = byte(4), frame.op = byte(6), frame.variable = byte(7) != 0, frame.root = label;
      frame.algorithm = low(words[2]), frame.count = amount, frame.history = low(words[5]);
      break;
    case FrameKind::eager:
      frame.data_type = byte(5), frame.checksum = checksum;
      frame.tag = label, frame.elements = amount;
      break;
    case FrameKind::request:
      frame.data_type = byte(5), frame.checksum = checksum;
      frame.tag = label, frame.elements = amount, frame.sender_slot = number;
      break;
    case FrameKind::grant:
      frame.sender_slot = number, frame.refused = amount == ~std::uint64_t{0};
      if (!frame.refused) frame.receiver_slot = low(amount);
      break;
    case FrameKind::bulk:
      frame.data_type = byte(5), frame.checksum = checksum;
      frame.tag = label, frame.elements = amount, frame.receiver_slot = number;
      break;
    case FrameKind::credit:
      frame.credit = amount;
      break;
    case FrameKind::abort:
      frame.error = byte(5), frame.operation = number, frame.culprit = label;
      break;
    case FrameKind::bye:
      break;
  }
  return frame;
}

Frame frame_of(const CallWords& words) {
  Frame frame = frame_of(FrameWords{words[0], words[1], static_cast<std::uint32_t>(words[2]), words[3]});
  frame.window = static_cast<std::uint32_t>(words[2] >> 32);
  return frame;
}

FrameBytes encode(const FrameWords& words) {
  FrameBytes bytes;
  std::byte* at = bytes.data();
  for (std::size_t i = 0; i + 1 < words.size(); ++i) at = put(at, words[i]);
  put(at, static_cast<std::uint32_t>(words.back()));
  return bytes;
}

std::optional<Frame> decode(const FrameWords& words) {
  if (static_cast<std::uint8_t>(words[0] >> 24) >= frame_kind_count) return std::nullopt;
  const Frame frame = frame_of(words);
  if (words_of(frame) != words || frame.length > max_length) return std::nullopt;
  return frame;
}

std::optional<Frame> decode(const CallWords& words) {
  std::optional<Frame> frame = decode(FrameWords{words[0], words[1], static_cast<std::uint32_t>(words[2]), words[3]});
  if (frame) frame->window = static_cast<std::uint32_t>(words[2] >> 32);
  return frame;
}

std::optional<Frame> decode(std::span<const std::byte, frame_size> bytes) {
  const std::byte* at = bytes.data();
  FrameWords words;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) words[i] = get<std::uint64_t>(at);
  words.back() = get<std::uint32_t>(at);
  return decode(words);
}

}  // namespace tutti::transport
