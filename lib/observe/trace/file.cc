#include "lib/observe/trace/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

off_t length_of(const Descriptor& file) {
  struct ::stat status {};
  return ::fstat(file.get(), &status) == 0 ? status.st_size : 0;
}

/// The file, locked until it is closed.
Descriptor open_locked(const std::string& path, const Patience& patience) {
  using Clock = std::chrono::steady_clock;
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file) refuse(path, "open", errno);
  // All ranks of a job come at the same time, so that many may write before this one.
  const auto begin = Clock::now();
  auto last_change = begin;
  off_t length = length_of(file);
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) refuse(path, "lock", errno);
    const Clock::time_point now = Clock::now();
    if (const off_t length_now = length_of(file); length_now != length) {
      length = length_now;
      last_change = now;
    }
    if (now - last_change >= patience.idle)
      throw Error{ErrorCode::system,
                  fmt::format("cannot lock the trace {}: another process holds it, and has written nothing for {} s; "
                              "it may have been stopped",
                              path, std::chrono::duration<double>(patience.idle).count())};
    if (now - begin >= patience.in_all)
      throw Error{ErrorCode::system,
                  fmt::format("cannot lock the trace {}: other processes have written there for {} s, and still do",
                              path, std::chrono::duration<double>(patience.in_all).count())};
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
off_t end_of_events(const Descriptor& file) {
  std::string text;
  for (off_t begin = length_of(file); begin > 0;) {
    const off_t count = std::min<off_t>(begin, 4096);
    begin -= count;
    std::string piece(static_cast<std::size_t>(count), '\0');
    if (::pread(file.get(), piece.data(), piece.size(), begin) != count) return 0;
    text = piece + text;
    // An event ends with "}", followed by a comma or the end of the line. Text after the last such end is incomplete.
    const std::size_t end = std::max(text.rfind("},\n") + 1, text.rfind("}\n]") + 1);
    if (end > 0) return begin + static_cast<off_t>(end);
  }
  return 0;
}

}  // namespace

void make_file(const std::string& path) {
  const Descriptor file = open_locked(path, {});
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

std::uint64_t append(const std::string& path, const Mapping& mapping, const BoardReads& board_reads,
                     const Patience& patience) {
  const Snapshot snapshot = take(mapping);
  const Descriptor file = open_locked(path, patience);
  off_t begin = end_of_events(file);
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
  if (good && ::ftruncate(file.get(), at) == 0) {
    mapping.memory().flushed.store(snapshot.written);
    return snapshot.lost;
  }
  if (::ftruncate(file.get(), begin) == 0) write_at(file.get(), tail, begin);
  refuse(path, "write", error);
}

}  // namespace tutti::trace
