#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/descriptor.h"
#include "tutti/error.h"

// The last operations of a rank, in memory that another process can read at any time, also after a SIGKILL: a ring of
// records, one per operation, written without a lock or a system call. `tutti blackbox` reads it
// (lib/observe/black_box_reader.h).

namespace tutti::black_box {

inline constexpr std::uint64_t magic = 0x584f424954545554;  // "TUTTIBOX"
inline constexpr std::uint32_t layout_version = 4;
inline constexpr std::size_t record_count = 64;  // small enough to leave most of the first-level cache to other data
inline constexpr std::size_t group_count = 64;
inline constexpr const char* memory_name = "tutti-blackbox";

// Point-to-point operations, besides the numbers of tutti::Collective.
inline constexpr std::uint8_t send = 100;
inline constexpr std::uint8_t receive = 101;
inline constexpr std::uint8_t probe = 102;

struct Flags {
  static constexpr std::uint8_t variable = 1;  ///< a _v call
  static constexpr std::uint8_t on_board = 2;  ///< it goes in rounds
};

enum class State : std::uint32_t { started, done, failed };

/// The beginning of a name, padded with zeros: copied as it is, a word at a time.
using Label = std::array<char, 24>;
Label label_of(std::string_view name);

/// What is known of an operation when it starts.
struct CallRecord {
  std::uint64_t group = 0;      ///< names the communicator; equal on all its members
  std::uint64_t operation = 0;  ///< number on its communicator; 0 for point to point
  std::uint64_t count = 0;      ///< elements, or a hash of the counts of a _v call
  std::int64_t started = 0;     ///< nanoseconds of CLOCK_MONOTONIC
  std::int64_t realtime = 0;    ///< what CLOCK_REALTIME is ahead; the box knows it
  std::int32_t root = 0;        ///< the peer of a send, receive or probe
  std::int32_t tag = 0;
  std::uint32_t parts = 0;      ///< steps of the plan, or rounds on a board
  std::uint8_t collective = 0;  ///< tutti::Collective, send, receive or probe
  std::uint8_t type = 0;
  std::uint8_t op = 0;
  std::uint8_t flags = 0;  ///< see Flags
  Label algorithm{};
};
inline constexpr std::size_t call_words = sizeof(CallRecord) / 8;
using CallWords = std::array<std::uint64_t, call_words>;  ///< what a CallRecord is in memory

/// A call that is made repeatedly, without its number and times. A record with the form's name has its contents already
/// and need not be rewritten.
struct Form {
  std::uint64_t name = 0;  ///< 0: none, it may well be the only time
  CallWords words{};
};
inline constexpr std::size_t text_words = 48;

/// One operation: two cache lines, side by side with those before and after, since all of them pass through the cache
/// in turn. `ticket` is 2n - 1 while the n-th operation is being written here, and 2n from then on. The rest may change
/// until `state` says how it ended; before that, members that belong to the end are those of an earlier operation.
struct alignas(64) Record {
  std::atomic<std::uint64_t> ticket;
  std::array<std::atomic<std::uint64_t>, call_words> call;
  std::atomic<std::uint64_t> bytes;  ///< handed to links or posted, and received
  std::atomic<std::int64_t> ended;   ///< nanoseconds of CLOCK_MONOTONIC
  std::atomic<std::uint32_t> parts_done;
  std::atomic<State> state;
  std::atomic<std::int32_t> culprit;      ///< of the failure, as a rank of the communicator
  std::atomic<std::uint32_t> code;        ///< ErrorCode
  std::atomic<std::uint64_t> text_bytes;  ///< of the failure
};
static_assert(sizeof(CallRecord) == 80 && sizeof(Record) == 128);

using Text = std::array<std::atomic<std::uint64_t>, text_words>;

struct GroupSlot {
  std::atomic<std::uint64_t> number;  ///< among the communicators of the rank, from 1; 0: none, or it is being written
  std::atomic<std::uint64_t> id;
  std::atomic<std::int32_t> size;
  std::atomic<std::int32_t> rank;
};

/// The whole box; all zero is a box that no rank has used. `magic` is written last.
struct Memory {
  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint32_t> layout;
  std::atomic<std::int32_t> pid;
  std::atomic<std::int32_t> rank;
  std::atomic<std::int32_t> size;
  std::atomic<std::uint64_t> operations;  ///< how many have begun
  std::atomic<std::uint64_t> earlier;     ///< how many of them in earlier worlds of this memory
  std::atomic<std::uint64_t> world;       ///< see Box::set_world()
  std::atomic<std::uint64_t> groups;      ///< how many were made
  std::array<char, 64> host;
  std::array<char, 64> job;
  std::array<char, 16> version;
  std::array<char, 64> scope;                            ///< see scope_here()
  alignas(64) std::array<GroupSlot, group_count> group;  ///< the first one, the world, stays in the first place
  alignas(4096) std::array<Record, record_count> records;
  std::array<Text, record_count> texts;  ///< what a failed operation's error says
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<State>::is_always_lock_free,
              "a lock would live in one process only");

/// An operation in progress, for the code that carries it out. Does nothing without a box, or once `record_count` later
/// operations have begun.
class Flight {
 public:
  Flight() = default;
  Flight(Record& record, Text& text, std::uint64_t ticket) noexcept : record_(&record), text_(&text), ticket_(ticket) {}

  void progress(std::uint32_t parts_done, std::uint64_t bytes) noexcept {
    if (!is_mine()) return;
    record_->bytes.store(bytes, std::memory_order_relaxed);
    record_->parts_done.store(parts_done, std::memory_order_relaxed);
  }
  /// The operation has ended; `error` null: successfully. Nothing may be recorded afterwards.
  void land(const Error* error) noexcept;
  /// For an operation that its caller completed inline: it has succeeded, and at most one other has begun meanwhile.
  /// `ended`: by coarse_now().
  void land_inline(std::uint32_t parts, std::uint64_t bytes, std::int64_t ended) noexcept;

 private:
  bool is_mine() const noexcept { return record_ && record_->ticket.load(std::memory_order_relaxed) == ticket_; }

  Record* record_ = nullptr;
  Text* text_ = nullptr;
  std::uint64_t ticket_ = 0;
};

/// A time for operations that are probably very short, as coarse as the kernel's clock tick.
std::int64_t coarse_now() noexcept;

/// A name that no form of this process has. Any thread.
std::uint64_t new_form_name() noexcept;

/// In what a time of CLOCK_MONOTONIC and the number of a process mean something: the running kernel's id and, after a
/// '/', the namespace of process numbers. Empty if the system does not tell.
std::string scope_here();

/// A memfd for a rank's box, for a launcher that keeps it beyond the rank's end. Throws Error{system}.
Descriptor make_memory();

/// The box of one rank. Threading: one thread at a time, the owner of the engine.
class Box {
 public:
  struct Owner {
    int rank = 0;
    int size = 1;
    std::string host;
    std::string job;
  };

  /// The place that TUTTI_BLACK_BOX gives: a file, or nowhere ("off"). Otherwise the memory from the launcher
  /// (TUTTI_BLACK_BOX_FD), if no other box of this process is in it, or a memfd of its own. Null, with the reason in
  /// `trouble`, if the system refuses the memfd. Throws Error for a file that cannot be made.
  static std::unique_ptr<Box> open(const Owner& owner, std::string& trouble);
  ~Box();
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

  /// A number on which the ranks of this world agree. It tells their communicators from those of another connect(),
  /// which have the same ids. Call it before add_group().
  void set_world(std::uint64_t number) noexcept { memory_->world.store(number); }
  void add_group(std::uint64_t id, int size, int rank) noexcept;
  /// It makes no more calls: its place may be given to another one, and tells of it until then.
  void end_group(std::uint64_t id) noexcept;
  /// Users include lib/observe/black_box_begin.h.
  Flight begin(const CallRecord& call) noexcept;
  Flight begin_again(const Form& form, std::uint64_t operation, std::int64_t started) noexcept;

 private:
  static constexpr std::size_t operation_word = offsetof(CallRecord, operation) / 8;
  static constexpr std::size_t started_word = offsetof(CallRecord, started) / 8;
  static constexpr std::size_t realtime_word = offsetof(CallRecord, realtime) / 8;
  enum class Home : std::uint8_t { inherited, own };

  Box(Descriptor descriptor, Memory* memory, Home home, const Owner& owner);
  static std::unique_ptr<Box> take_inherited(const Owner& owner);
  Record& open_record(std::int64_t now) noexcept;
  Flight close_record(Record& record) noexcept;
  void read_realtime(std::int64_t now) noexcept;
  std::size_t place_for_group() const noexcept;

  Descriptor descriptor_;  ///< kept: readers find the box through /proc/PID/fd
  Memory* memory_;
  Home home_;
  std::uint64_t operations_;
  std::array<std::uint64_t, record_count> form_in_{};  ///< by record: the name of the form that it has, or 0
  std::array<bool, group_count> has_ended_{};          ///< by place of a group
  std::int64_t realtime_ = 0;
  std::int64_t realtime_read_ = 0;
};

}  // namespace tutti::black_box
