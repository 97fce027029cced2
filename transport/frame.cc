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
  return {.kind = static_cast<FrameKind>(byte(3)),
          .collective = byte(4),
          .data_type = byte(5),
          .op = byte(6),
          .variable = byte(7) != 0,
          .operation = low(words[operation_word]),
          .root = static_cast<std::int32_t>(words[operation_word] >> 32),
          .algorithm = low(words[2]),
          .checksum = low(words[2] >> 32),
          .count = words[3],
          .length = words[4],
          .history = low(words[5])};
}

FrameBytes encode(const FrameWords& words) {
  FrameBytes bytes;
  std::byte* at = bytes.data();
  for (std::size_t i = 0; i + 1 < words.size(); ++i) at = put(at, words[i]);
  put(at, static_cast<std::uint32_t>(words.back()));
  return bytes;
}

namespace {

/// Whether its payload is a user's.
bool may_have_checksum(FrameKind kind) {
  return kind == FrameKind::data || kind == FrameKind::eager || kind == FrameKind::request || kind == FrameKind::bulk;
}

}  // namespace

std::optional<Frame> decode(const FrameWords& words) {
  const std::uint64_t kinds = words[0];
  if (static_cast<std::uint16_t>(kinds) != frame_magic || static_cast<std::uint8_t>(kinds >> 16) != protocol_version ||
      static_cast<std::uint8_t>(kinds >> 24) >= frame_kind_count || kinds >> 56 > 1)
    return std::nullopt;
  const Frame frame = frame_of(words);
  if (frame.checksum != 0 && !may_have_checksum(frame.kind)) return std::nullopt;
  if ((frame.variable || frame.history != 0) && frame.kind != FrameKind::data) return std::nullopt;
  if (frame.length > max_length) return std::nullopt;
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
