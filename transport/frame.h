#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tutti::transport {

enum class FrameKind : std::uint8_t {
  data,     ///< part of a collective
  eager,    ///< point to point: the payload follows
  request,  ///< point to point: the sender has `count` elements and waits for a grant; the first of them follow
  grant,    ///< point to point: the receiver is ready for message `operation`
  bulk,     ///< point to point: the rest of the granted message
  credit,   ///< point to point: `count` eager bytes have been taken
  abort,    ///< the sender failed: payload is text, `root` the culprit's rank, `data_type` the ErrorCode
  bye,      ///< the sender closes this link on purpose; the last frame
};
inline constexpr int frame_kind_count = 8;

/// Header of every message on every link; docs/wire.md is its specification. It carries the call itself, not a digest,
/// so that an error can quote both calls.
struct Frame {
  FrameKind kind = FrameKind::data;
  std::uint8_t collective = 0;
  std::uint8_t data_type = 0;
  std::uint8_t op = 0;
  bool variable = false;        ///< a _v call
  std::uint32_t operation = 0;  ///< low 32 bits of the operation number; message number for point to point
  std::int32_t root = 0;        ///< root; tag for point to point
  std::uint32_t algorithm = 0;  ///< hash of the algorithm and its parameters
  std::uint32_t checksum = 0;   ///< CRC-32C of a user's payload, or 0 for none
  std::uint64_t count = 0;      ///< elements of the call; of a _v call their sum and a hash of the counts
  std::uint64_t length = 0;     ///< payload bytes of this message
  std::uint32_t history = 0;    ///< of a collective: a hash of all earlier calls of its group

  friend bool operator==(const Frame&, const Frame&) = default;
};

/// Whether operation `one` comes before `other`. The numbers are modulo 2^32.
constexpr bool is_before(std::uint32_t one, std::uint32_t other) { return static_cast<std::int32_t>(one - other) < 0; }

inline constexpr std::size_t frame_size = 44;
inline constexpr std::uint16_t frame_magic = 0x5454;  // "TT"
inline constexpr std::uint8_t protocol_version = 2;
/// No message is longer. The limit protects sums of lengths from overflow.
inline constexpr std::uint64_t max_length = std::uint64_t{1} << 48;

using FrameBytes = std::array<std::byte, frame_size>;

/// The header as numbers, each of which is written in little-endian order; of the last one only the lower half.
using FrameWords = std::array<std::uint64_t, 6>;
inline constexpr std::size_t operation_word = 1;  ///< its lower half
/// The first words, which identify the call: they are equal in all messages of a call.
inline constexpr std::size_t call_words = 4;

constexpr FrameWords words_of(const Frame& frame) {
  const auto pair = [](std::uint32_t low, std::uint32_t high) { return low | std::uint64_t{high} << 32; };
  const std::uint64_t kinds = frame_magic | std::uint64_t{protocol_version} << 16 |
                              std::uint64_t{static_cast<std::uint8_t>(frame.kind)} << 24 |
                              std::uint64_t{frame.collective} << 32 | std::uint64_t{frame.data_type} << 40 |
                              std::uint64_t{frame.op} << 48 | std::uint64_t{frame.variable} << 56;
  return {kinds,
          pair(frame.operation, static_cast<std::uint32_t>(frame.root)),
          pair(frame.algorithm, frame.checksum),
          frame.count,
          frame.length,
          frame.history};
}
FrameBytes encode(const FrameWords& words);
/// The inverse of words_of(), without checks.
Frame frame_of(const FrameWords& words);
inline FrameBytes encode(const Frame& frame) { return encode(words_of(frame)); }
/// Nothing if magic, version, kind or length are wrong, or if a field is set that its kind does not have.
std::optional<Frame> decode(const FrameWords& words);
std::optional<Frame> decode(std::span<const std::byte, frame_size> bytes);

}  // namespace tutti::transport
