#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/observe/trace/chrome.h"
#include "lib/observe/trace/file.h"
#include "lib/observe/trace/record.h"

namespace tutti::trace {

/// Records what one rank does, while it does it: a record goes into preallocated memory, without a lock, an allocation
/// or a system call. When the memory is full the oldest records are overwritten.
///
/// The file is written when the rank is done, or has failed; if a launcher holds the memory, the launcher writes it.
///
/// Threading: one thread at a time, the owner of the engine.
class Recorder {
 public:
  struct Owner {
    int rank = 0;
    int size = 1;
    std::string host;
  };

  /// Null without TUTTI_TRACE_FILE. The memory is the launcher's (TUTTI_TRACE_FD), if it is unused, else its own; then
  /// the file is created here, so that a failure is known early. Call it before the ranks meet. Null, with the reason
  /// in `trouble`, if the system refuses the memory. Throws Error.
  static std::unique_ptr<Recorder> open(const Owner& owner, BoardReads board_reads, std::string& trouble);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void add(const Record& record) noexcept {
    records_[written_ & mask_] = record;
    __builtin_prefetch(&records_[(written_ + 8) & mask_], 1);  // it has not been in any cache for a long time
    mapping_.memory().written.store(++written_, std::memory_order_release);
  }
  /// No other recorder's; not 0.
  std::uint64_t number() const noexcept;
  /// A number on which the ranks of this world agree. It tells their communicators from those of another connect() or
  /// attempt in the same file, which have the same ids. Call it before add_group().
  void set_world(std::uint64_t number) noexcept { world_ = number; }
  /// A number for an algorithm's name, to be used in records.
  std::uint8_t name(std::string_view algorithm) noexcept;
  /// The same for a communicator.
  std::uint16_t add_group(std::uint64_t id, int rank, std::span<const int> members) noexcept;
  /// The result for this host's clock: it is `offset` nanoseconds behind that of rank `reference`, plus or minus
  /// `uncertainty`.
  void set_clock(int reference, std::int64_t offset, std::int64_t uncertainty) noexcept;

  /// A moment at which it began to record.
  Moment opened() const noexcept { return mapping_.memory().opened; }

  /// Adds all records that are not there yet to the file, unless the launcher does so.
  void flush(const Patience& patience = {}) noexcept;

 private:
  enum class Home : std::uint8_t { inherited, own };

  Recorder(Descriptor descriptor, Mapping mapping, Home home, std::string path, const Owner& owner,
           BoardReads board_reads);
  static std::unique_ptr<Recorder> take_inherited(const Owner& owner, const std::string& path,
                                                  const BoardReads& board_reads);

  Descriptor descriptor_;
  Mapping mapping_;
  Home home_;
  std::string path_;
  BoardReads board_reads_;
  Record* records_;
  std::uint64_t mask_;
  std::uint64_t written_ = 0;
  std::uint64_t world_ = 0;
  std::uint32_t last_name_ = 0;
};

}  // namespace tutti::trace
