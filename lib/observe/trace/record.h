#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/base/descriptor.h"
#include "lib/observe/trace/ticks.h"

// The raw data of a trace while a rank works: records of one cache line each, in a ring in memory that its launcher may
// also hold, so that it outlives the rank. lib/observe/trace/chrome.h makes a file of it.

namespace tutti::trace {

inline constexpr std::uint64_t magic = 0x4543415254545554;  // "TUTTRACE"
inline constexpr std::uint32_t layout_version = 2;
inline constexpr std::size_t default_records = 65536;
inline constexpr std::size_t most_records = std::size_t{1} << 26;
/// Bytes that are moved or combined in less time than two readings of the clock take.
inline constexpr std::size_t tiny = 512;
/// Ticks between two looks at the links that count as an absence: 2 to 4 ms by the processor's counter, else 8. A step
/// or pass that takes this long is recorded, too; it only matters to ranks that wait for this one.
inline constexpr std::int64_t long_absence = std::int64_t{1} << 23;
inline constexpr const char* memory_name = "tutti-trace";

enum class Kind : std::uint8_t {
  begun,            ///< a collective has begun that may last
  call,             ///< and this is all of it
  inline_call,      ///< one that was done over a board without an operation; middle: all others were there
  send,             ///< a step; middle: its message was given to the link; end: the link has it
  receive,          ///< a step; middle: the message began to arrive
  copy,             ///< a step
  reduce,           ///< a step, or a piece of what a step receives
  post,             ///< a rank's contribution to a round goes on the board
  take,             ///< begin: the post is there; middle: those of the others are, too; end: all is read
  board_send,       ///< what a post is for one reader
  board_receive,    ///< and what that reads
  message_send,     ///< point to point
  message_receive,  ///< point to point; middle: the message began to arrive
  sleep,            ///< the thread that drives the engine
  away,             ///< that thread looked at no link meanwhile: stopped, without a core, or held up in a step
  stream,           ///< a call, from its first command on a stream of a GPU to the last; its steps follow
  left_out,         ///< of such a call: further steps, of which nothing is known
  to_host,          ///< of a staged call: a stream copies its input to the host,
  to_device,        ///< and its result back
};
inline constexpr int kind_count = 19;

struct Flags {
  static constexpr std::uint8_t failed = 1;    ///< it never ended well
  static constexpr std::uint8_t at_once = 2;   ///< of a send: the link took it at once
  static constexpr std::uint8_t variable = 4;  ///< a _v call
  static constexpr std::uint8_t reduces = 8;   ///< of a receive: what comes is combined with what is there
  /// A step that a stream of a GPU does. Middle: it need not wait any more, for a message or for a slot.
  static constexpr std::uint8_t on_stream = 16;
  static constexpr std::uint8_t credit = 32;  ///< of such a message: the receiver's memory is no longer used
};

inline constexpr std::uint16_t no_group = 0xffff;
inline constexpr std::uint8_t no_name = 0xff;
inline constexpr std::uint32_t no_step = 0xffffffff;  ///< of the plan

/// Times are ticks(); 0: it did not happen.
struct Record {
  std::int64_t begin = 0;
  std::int64_t middle = 0;
  std::int64_t end = 0;
  std::uint64_t bytes = 0;      ///< of a call on a stream: uncertainty of its times in nanoseconds
  std::uint64_t count = 0;      ///< of a call: elements; of a message: its number on its way from one rank to another;
                                ///< of what is left out: steps
  std::uint32_t operation = 0;  ///< number of the call on its communicator
  std::uint32_t step = 0;       ///< place in the plan; of a board: the round; point to point: the tag
  std::int32_t peer = -1;       ///< in the world; of a call: its root in the group
  std::uint16_t group = no_group;
  Kind kind{};
  std::uint8_t collective = 0;
  std::uint8_t type = 0;
  std::uint8_t op = 0;
  std::uint8_t name = no_name;  ///< the algorithm's
  std::uint8_t flags = 0;
};
static_assert(sizeof(Record) == 64);

/// A communicator. For inline calls, the peers follow from its members.
struct Group {
  std::uint64_t id = 0;
  std::int32_t size = 0;
  std::int32_t rank = 0;
  std::uint32_t members = 0;      ///< where they begin in Memory::members
  std::uint32_t has_members = 0;  ///< there was room
};

struct Memory {
  static constexpr std::size_t most_groups = 256;
  static constexpr std::size_t most_members = 16384;
  static constexpr std::size_t most_names = 128;

  std::atomic<std::uint64_t> magic;  ///< written last; 0: no rank has used it
  std::uint32_t layout;
  std::uint32_t counts;  ///< 1: times are the processor's counter
  std::int32_t pid;
  std::int32_t rank;
  std::int32_t size;
  std::int32_t reference;    ///< the rank whose host's clock counts
  std::uint64_t capacity;    ///< records, a power of two
  std::int64_t offset;       ///< nanoseconds that this host's clock is behind that one
  std::int64_t uncertainty;  ///< of that; 0 on that host; -1: not measured
  Moment opened;
  Moment closed;  ///< zero: it was not
  std::array<char, 64> host;
  std::array<char, 16> version;
  std::atomic<std::uint64_t> written;  ///< records, ever
  std::atomic<std::uint64_t> flushed;  ///< of them in the file
  std::atomic<std::uint32_t> names;
  std::atomic<std::uint32_t> groups;
  std::uint32_t members_used;
  std::array<std::array<char, 48>, most_names> name;
  std::array<Group, most_groups> group;
  std::array<std::int32_t, most_members> members;
};
inline constexpr std::size_t records_begin = (sizeof(Memory) + 4095) / 4096 * 4096;
constexpr std::size_t memory_bytes(std::size_t records) { return records_begin + records * sizeof(Record); }

/// Mapped memory of a trace. Ownership: unmaps it.
class Mapping {
 public:
  Mapping() = default;
  /// Empty if the system refuses.
  Mapping(const Descriptor& descriptor, std::size_t bytes) noexcept;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  explicit operator bool() const { return memory_ != nullptr; }
  Memory& memory() const { return *memory_; }
  Record* records() const;
  std::size_t bytes() const { return bytes_; }

 private:
  Memory* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The number of records that TUTTI_TRACE_RECORDS asks for, rounded up to a power of two. Throws
/// Error{invalid_argument}.
std::size_t wanted_records();
/// A memfd for that many. Throws Error{system}.
Descriptor make_memory(std::size_t records);
/// Size of the memory if the descriptor is such a memfd, else 0: others must not be written to.
std::size_t size_of_memory(int descriptor) noexcept;

}  // namespace tutti::trace
