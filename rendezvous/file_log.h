#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::rendezvous {

enum class RecordKind : std::uint8_t { set = 1, append, erase, join, leave };

struct Record {
  RecordKind kind = RecordKind::set;
  std::string key;
  std::string value;
};

/// A file to which several processes append records, each of which sees all of them in one order.
///
/// The file begins with a magic word; a record is its length, a check sum, the kind, the key and the value. A process
/// that dies while it writes leaves a short record at the end: readers stop before it, and the next writer cuts it off.
class FileLog {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Opens the file, or makes it. Throws Error{rendezvous} that names it.
  explicit FileLog(std::string path);
  ~FileLog();
  FileLog(const FileLog&) = delete;
  FileLog& operator=(const FileLog&) = delete;

  const std::string& path() const { return path_; }
  /// Throws Error{rendezvous} unless the file belongs to this user and is closed to all others, and lies in a folder in
  /// which not everybody may replace it. Whoever can read the file learns where the ranks are and how to join them.
  void require_private() const;

  /// While it lives, no other process writes (exclusive) or at least none writes while we read (shared).
  class Lock {
   public:
    enum class Kind : std::uint8_t { shared, exclusive };
    /// Gives up at the deadline: the holder may have been stopped.
    Lock(FileLog& log, Kind kind, Deadline deadline);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    FileLog& log_;
  };

  /// False when the file was removed, or replaced by another, since it was opened.
  bool is_current() const;
  /// The complete records since the last call. Needs a lock.
  std::vector<Record> read_new();
  /// Needs the exclusive lock, and that nothing is left to be read.
  void append(const Record& record);
  /// Removes the file, for everybody. Needs the exclusive lock.
  void remove();

 private:
  void fail(const char* what) const;
  std::vector<Record> parse(std::string_view bytes);

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t offset_ = 0;  // behind the last complete record
};

}  // namespace tutti::rendezvous
