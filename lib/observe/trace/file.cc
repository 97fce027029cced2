#include "lib/observe/trace/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "lib/observe/trace/snapshot.h"
#include "tutti/error.h"
#include "tutti/version.h"

namespace tutti::trace {
namespace {

constexpr std::string_view tail = "\n]}\n";
constexpr std::size_t chunk = std::size_t{1} << 20;
constexpr std::chrono::seconds longest_wait{10};

std::string head() {
  return fmt::format(
      R"({{"displayTimeUnit":"ns","otherData":{{"writer":"tutti","version":"{}","format":{}}},"traceEvents":[)",
      TUTTI_VERSION, file_format);
}

[[noreturn]] void refuse(const std::string& path, const char* what, int error) {
  throw Error{ErrorCode::system, fmt::format("cannot {} the trace {}: {}. Name a file in a folder that exists and may "
                                             "be written (TUTTI_TRACE_FILE, tutti run --trace)",
                                             what, path, std::strerror(error))};
}

/// The file, locked until it is closed.
Descriptor open_locked(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file) refuse(path, "open", errno);
  // With a limit, since the holder of the lock may be stopped.
  const auto until = std::chrono::steady_clock::now() + longest_wait;
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) refuse(path, "lock", errno);
    if (std::chrono::steady_clock::now() >= until)
      throw Error{ErrorCode::system,
                  fmt::format("cannot lock the trace {}: another process has held it for {} s; it may "
                              "have been stopped while it wrote there",
                              path, longest_wait.count())};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return file;
}

bool write_at(int file, std::string_view text, off_t where) {
  while (!text.empty()) {
    const ssize_t count = ::pwrite(file, text.data(), text.size(), where);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
    where += count;
  }
  return true;
}

/// The end of the last complete event; 0: there is none.
off_t end_of_events(int file) {
  struct ::stat status {};
  if (::fstat(file, &status) != 0) return 0;
  std::string text;
  for (off_t begin = status.st_size; begin > 0;) {
    const off_t count = std::min<off_t>(begin, 4096);
    begin -= count;
    std::string piece(static_cast<std::size_t>(count), '\0');
    if (::pread(file, piece.data(), piece.size(), begin) != count) return 0;
    text = piece + text;
    // An event ends with "}", followed by a comma or the end of the line. Text after the last such end is incomplete.
    const std::size_t end = std::max(text.rfind("},\n") + 1, text.rfind("}\n]") + 1);
    if (end > 0) return begin + static_cast<off_t>(end);
  }
  return 0;
}

}  // namespace

void make_file(const std::string& path) {
  const Descriptor file = open_locked(path);
  if (::ftruncate(file.get(), 0) != 0) refuse(path, "empty", errno);
  if (!write_at(file.get(), head() + std::string{tail}, 0)) refuse(path, "write", errno);
}

void make_file_once(const std::string& path) {
  static std::mutex mutex;
  static std::set<std::string>& made = *new std::set<std::string>;  // ranks may be made at the end of the process
  const std::lock_guard lock{mutex};
  if (made.contains(path)) return;
  make_file(path);
  made.insert(path);
}

std::uint64_t append(const std::string& path, const Mapping& mapping, const BoardReads& board_reads) {
  const Snapshot snapshot = take(mapping);
  const Descriptor file = open_locked(path);
  off_t begin = end_of_events(file.get());
  if (begin == 0) {
    if (!write_at(file.get(), head(), 0)) refuse(path, "write", errno);
    begin = static_cast<off_t>(head().size());
  }
  std::string text;
  off_t at = begin;
  bool first = begin == static_cast<off_t>(head().size());
  bool good = true;
  const auto flush = [&] {
    good = good && write_at(file.get(), text, at);
    at += static_cast<off_t>(text.size());
    text.clear();
  };
  write_events(snapshot, board_reads, [&](std::string_view event) {
    text.append(first ? "\n" : ",\n").append(event);
    first = false;
    if (text.size() >= chunk) flush();
  });
  text += tail;
  flush();
  const int error = errno;
  if (good && ::ftruncate(file.get(), at) == 0) return snapshot.lost;
  if (::ftruncate(file.get(), begin) == 0) write_at(file.get(), tail, begin);
  refuse(path, "write", error);
}

}  // namespace tutti::trace
