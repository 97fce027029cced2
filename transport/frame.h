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
  request,  ///< point to point: the sender waits for a grant; the first of the payload follows
  grant,    ///< point to point: the receiver is ready for the message
  bulk,     ///< point to point: the rest of the granted message
  credit,   ///< point to point: eager bytes have been taken
  abort,    ///< the sender failed: the payload is the reason as text
  bye,      ///< the sender closes this link on purpose; the last frame
};
inline constexpr int frame_kind_count = 8;

/// Header of every message on every link; docs/wire.md is its specification. It carries the call itself, not a digest,
/// so that an error can quote both calls. A frame has only the fields that are listed for its kind; the others are 0.
struct Frame {
  FrameKind kind = FrameKind::data;
  std::uint8_t data_type = 0;   ///< data, eager, request, bulk
  std::uint32_t checksum = 0;   ///< data, eager, request, bulk: CRC-32C of the payload, or 0 for none
  std::uint64_t length = 0;     ///< all: payload bytes of this message
  std::uint32_t operation = 0;  ///< data, abort: low 32 bits of the operation's number

  // A call: kind `data`
  std::uint8_t collective = 0;
  std::uint8_t op = 0;
  bool variable = false;        ///< a _v call
  std::int32_t root = 0;        ///< of the call
  std::uint32_t algorithm = 0;  ///< hash of the algorithm and its parameters
  std::uint32_t window = 0;   ///< in allocated memory: hash of which; such a call has posts on a board and no messages
  std::uint64_t count = 0;    ///< elements of the call; of a _v call their sum and a hash of the counts
  std::uint32_t history = 0;  ///< hash of all earlier calls of the group

  // Point-to-point messages
  std::int32_t tag = 0;             ///< eager, request, bulk
  std::uint64_t elements = 0;       ///< eager, request, bulk: those of the whole message
  std::uint32_t sender_slot = 0;    ///< request, grant: the sender's number of the message
  std::uint32_t receiver_slot = 0;  ///< grant, bulk: the receiver's number of the message
  bool refused = false;             ///< grant: the message does not fit, so that no bulk is to come
  std::uint64_t credit = 0;         ///< credit: eager bytes that have been taken

  // A failure: kind `abort`
  std::uint8_t error = 0;    ///< the ErrorCode
  std::int32_t culprit = 0;  ///< the culprit's rank, or -1

  friend bool operator==(const Frame&, const Frame&) = default;
};

/// Whether operation `one` comes before `other`. The numbers are modulo 2^32.
constexpr bool is_before(std::uint32_t one, std::uint32_t other) { return static_cast<std::int32_t>(one - other) < 0; }

inline constexpr std::size_t frame_size = 44;
inline constexpr std::uint16_t frame_magic = 0x5454;  // "TT"
inline constexpr std::uint8_t protocol_version = 4;
/// No message is longer. The limit protects sums of lengths from overflow.
inline constexpr std::uint64_t max_length = std::uint64_t{1} << 48;

using FrameBytes = std::array<std::byte, frame_size>;

/// The header as numbers, each of which is written in little-endian order; of the last one only the lower half.
using FrameWords = std::array<std::uint64_t, 6>;

/// What identifies a call and is equal on all ranks, as boards and the history of calls keep it.
using CallWords = std::array<std::uint64_t, 4>;

constexpr std::uint64_t word_of(std::uint32_t low, std::uint32_t high) { return low | std::uint64_t{high} << 32; }

/// Fields that share a place are joined, since at most one of them is not 0.
constexpr FrameWords words_of(const Frame& frame) {
  const bool is_grant = frame.kind == FrameKind::grant;
  const std::uint64_t kinds =
      frame_magic | std::uint64_t{protocol_version} << 16 | std::uint64_t{static_cast<std::uint8_t>(frame.kind)} << 24 |
      std::uint64_t{frame.collective} << 32 | static_cast<std::uint64_t>(frame.data_type | frame.error) << 40 |
      std::uint64_t{frame.op} << 48 | std::uint64_t{frame.variable} << 56;
  const std::uint32_t number = frame.operation | frame.sender_slot | (is_grant ? 0 : frame.receiver_slot);
  const std::uint64_t granted = frame.refused ? ~std::uint64_t{0} : is_grant ? frame.receiver_slot : 0;
  return {kinds,
          word_of(number, static_cast<std::uint32_t>(frame.root | frame.tag | frame.culprit)),
          word_of(frame.algorithm, frame.checksum),
          frame.count | frame.elements | frame.credit | granted,
          frame.length,
          frame.history};
}
constexpr std::uint64_t length_of(const FrameWords& words) { return words[4]; }
constexpr std::uint32_t operation_of(const CallWords& words) { return static_cast<std::uint32_t>(words[1]); }
/// `frame` is of kind `data`.
constexpr CallWords call_words_of(const Frame& frame) {
  const FrameWords words = words_of(frame);
  return {words[0], words[1], word_of(frame.algorithm, frame.window), words[3]};
}
FrameBytes encode(const FrameWords& words);
inline FrameBytes encode(const Frame& frame) { return encode(words_of(frame)); }
/// The inverses, without checks: what the kind does not have is left out.
Frame frame_of(const FrameWords& words);
Frame frame_of(const CallWords& words);
/// Nothing if magic, version, kind or length are wrong, or if a field is set that its kind does not have.
std::optional<Frame> decode(const FrameWords& words);
std::optional<Frame> decode(const CallWords& words);
std::optional<Frame> decode(std::span<const std::byte, frame_size> bytes);

}  // namespace tutti::transport
