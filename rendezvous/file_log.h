#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::rendezvous {

enum class RecordKind : std::uint8_t { set = 1, append, erase, join, leave, push, pop };

struct Record {
  RecordKind kind = RecordKind::set;
  std::string key;
  std::string value;
};

/// A file to which several processes append records. All of them see the records in one order.
///
/// The file begins with a magic word. A record has its length, a checksum, the kind, the key and the value. A process
/// that dies while writing leaves a short record at the end: readers stop before it, and the next writer truncates it.
class FileLog {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  enum class Missing : std::uint8_t { made, refused };

  /// Opens the file, or makes one that is missing. Throws Error{rendezvous} that names it.
  explicit FileLog(std::string path, Missing missing = Missing::made);
  ~FileLog();
  FileLog(const FileLog&) = delete;
  FileLog& operator=(const FileLog&) = delete;

  const std::string& path() const { return path_; }
  /// Throws Error{rendezvous} unless the file belongs to this user, is closed to all others, and lies in a folder in
  /// which others may not replace it. A user who can read the file learns where the ranks are and how to join them.
  void require_private() const;

  /// While it exists, no other process writes; with `exclusive`, none reads either.
  class Lock {
   public:
    enum class Kind : std::uint8_t { shared, exclusive };
    enum class Asks : std::uint8_t { the_program, nobody };
    /// Throws at the deadline, since the holder may be stopped, and where the program interrupts it, which is asked
    /// unless an object is being destroyed.
    Lock(FileLog& log, Kind kind, Deadline deadline, Asks asks = Asks::the_program);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    FileLog& log_;
  };

  /// False if the file was removed or replaced since it was opened.
  bool is_current() const;
  /// The complete records added since the last call. Needs a lock.
  std::vector<Record> read_new();
  /// Needs the exclusive lock, and all records must have been read.
  void append(const Record& record);
  /// Removes the file for all users. Needs the exclusive lock.
  void remove();

 private:
  void fail(const char* what) const;
  std::vector<Record> parse(std::string_view bytes);

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t offset_ = 0;  // end of the last complete record
};

}  // namespace tutti::rendezvous
