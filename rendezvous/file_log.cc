#include "rendezvous/file_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "lib/base/hash.h"
#include "lib/base/wait_hook.h"
#include "rendezvous/process.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

constexpr std::string_view magic = "tutti store 1\n";
constexpr std::size_t head_bytes = 8;              // u32 length of the body, u32 checksum of it
constexpr std::size_t min_body_bytes = 5;          // kind, u32 key length
constexpr std::size_t max_body_bytes = 16u << 20;  // limits.h keeps keys and values far below

std::uint32_t check_sum(std::string_view body) { return static_cast<std::uint32_t>(fnv1a(body)); }

void put_u32(std::string& out, std::size_t value) {
  const auto word = static_cast<std::uint32_t>(value);
  out.append(reinterpret_cast<const char*>(&word), sizeof word);
}

std::uint32_t get_u32(std::string_view bytes) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

std::string encode_record(const Record& record) {
  std::string body;
  body.push_back(static_cast<char>(record.kind));
  put_u32(body, record.key.size());
  body += record.key;
  body += record.value;
  std::string bytes;
  put_u32(bytes, body.size());
  put_u32(bytes, check_sum(body));
  return bytes + body;
}

}  // namespace

FileLog::FileLog(std::string path, Missing missing) : path_(std::move(path)) {
  const int make = missing == Missing::made ? O_CREAT : 0;
  descriptor_ = ::open(path_.c_str(), O_RDWR | make | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor_ < 0) fail("cannot open it");
}

FileLog::~FileLog() { ::close(descriptor_); }

void FileLog::fail(const char* what) const {
  throw Error{ErrorCode::rendezvous, fmt::format("rendezvous file {}: {}: {}.", path_, what, std::strerror(errno))};
}

void FileLog::require_private() const {
  const std::string remedy =
      "Name a file in a folder of your own, or give all ranks the same secret (TUTTI_SECRET, TUTTI_SECRET_FILE): with "
      "it the file is of no use to other users";
  struct stat file {};
  if (::fstat(descriptor_, &file) != 0) fail("cannot examine it");
  if (file.st_uid != ::geteuid())
    throw Error{ErrorCode::rendezvous,
                fmt::format("rendezvous file {}: it belongs to user {}, not to user {} who runs this rank, so user {} "
                            "could read it and join the job. {}.",
                            path_, file.st_uid, ::geteuid(), file.st_uid, remedy)};
  if ((file.st_mode & 077) != 0)
    throw Error{
        ErrorCode::rendezvous,
        fmt::format("rendezvous file {}: its mode is {:04o}, so other users could read or change it and join the "
                    "job. Remove it, or chmod 600 it: tutti makes it closed to others. {}.",
                    path_, file.st_mode & 07777, remedy)};
  const std::size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, std::max<std::size_t>(slash, 1));
  struct stat around {};
  if (::stat(folder.c_str(), &around) != 0) fail("cannot examine its folder");
  const bool ours = around.st_uid == ::geteuid() || around.st_uid == 0;
  if (!ours)
    throw Error{ErrorCode::rendezvous,
                fmt::format("rendezvous file {}: its folder {} belongs to user {}, who could replace the file. {}.",
                            path_, folder, around.st_uid, remedy)};
  if ((around.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (around.st_mode & S_ISVTX) == 0)
    throw Error{
        ErrorCode::rendezvous,
        fmt::format("rendezvous file {}: its folder {} has mode {:04o}, so {} could replace the file. "
                    "chmod go-w {}, even if you are alone in its group. {}.",
                    path_, folder, around.st_mode & 07777,
                    (around.st_mode & S_IWOTH) != 0 ? "everybody" : fmt::format("members of group {}", around.st_gid),
                    folder, remedy)};
}

FileLog::Lock::Lock(FileLog& log, Kind kind, Deadline deadline, Asks asks) : log_(log) {
  const int how = kind == Kind::shared ? LOCK_SH : LOCK_EX;
  auto question = next_question(deadline);
  for (auto pause = std::chrono::microseconds{50};; pause = std::min(pause * 2, std::chrono::microseconds{5000})) {
    if (::flock(log_.descriptor_, how | LOCK_NB) == 0) return;
    if (errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK)
      log_.fail("its file system has no locks; name a file on another one, or meet at TUTTI_RDZV=tcp://host:port");
    if (errno != EWOULDBLOCK && errno != EINTR) log_.fail("cannot lock it");
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline)
      throw Error{
          ErrorCode::rendezvous,
          fmt::format("rendezvous file {}: another process keeps it locked; is one of the ranks stopped?", log_.path_)};
    if (asks == Asks::the_program && now >= question) {
      end_if_program_interrupts();
      question = next_question(deadline);
    }
    std::this_thread::sleep_for(pause);
  }
}

FileLog::Lock::~Lock() { ::flock(log_.descriptor_, LOCK_UN); }

bool FileLog::is_current() const {
  struct stat opened {};
  struct stat named {};
  if (::fstat(descriptor_, &opened) != 0) fail("cannot examine it");
  if (::stat(path_.c_str(), &named) != 0) return false;
  return opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

std::vector<Record> FileLog::read_new() {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("cannot examine it");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size <= offset_) return {};
  std::string bytes(size - offset_, '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t n =
        ::pread(descriptor_, bytes.data() + have, bytes.size() - have, static_cast<off_t>(offset_ + have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read it");
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  bytes.resize(have);
  return parse(bytes);
}

std::vector<Record> FileLog::parse(std::string_view bytes) {
  const auto damaged = [this](const char* what) {
    return Error{
        ErrorCode::rendezvous,
        fmt::format("rendezvous file {}: {} at byte {}. Remove it, or name another file.", path_, what, offset_)};
  };
  if (offset_ == 0) {
    const std::string_view start = bytes.substr(0, magic.size());
    if (magic.substr(0, start.size()) != start) throw damaged("something other than a tutti store");
    if (start.size() < magic.size()) return {};
    offset_ = magic.size();
    bytes.remove_prefix(magic.size());
  }
  std::vector<Record> records;
  while (bytes.size() >= head_bytes) {
    const std::size_t length = get_u32(bytes);
    if (length < min_body_bytes || length > max_body_bytes) throw damaged("damaged");
    if (bytes.size() - head_bytes < length) break;
    const std::string_view body = bytes.substr(head_bytes, length);
    const std::size_t key_length = get_u32(body.substr(1));
    if (check_sum(body) != get_u32(bytes.substr(4)) || key_length > length - min_body_bytes) throw damaged("damaged");
    records.push_back({static_cast<RecordKind>(body[0]), std::string{body.substr(min_body_bytes, key_length)},
                       std::string{body.substr(min_body_bytes + key_length)}});
    offset_ += head_bytes + length;
    bytes.remove_prefix(head_bytes + length);
  }
  return records;
}

void FileLog::append(const Record& record) {
  const std::string bytes = (offset_ == 0 ? std::string{magic} : std::string{}) + encode_record(record);
  // Bytes after the last complete record were left by a writer that died.
  if (::ftruncate(descriptor_, static_cast<off_t>(offset_)) != 0) fail("cannot cut off a half-written record");
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset_ + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write to it");
    done += static_cast<std::size_t>(n);
  }
  offset_ += bytes.size();
}

void FileLog::remove() {
  if (is_current()) ::unlink(path_.c_str());
}

}  // namespace tutti::rendezvous
