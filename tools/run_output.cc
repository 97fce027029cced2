// Output of the ranks: read from pipes, cut into lines, labelled, queued, written.
//
//   rank's pipe --> RankOutput (one unfinished line) --> Outlet (a bounded queue) --> stdout or stderr
//
// A line leaves in one piece, so lines of different ranks never mix. Only a line above 1 MiB is cut.

#include "tools/run_output.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tutti::tools {
namespace {

constexpr std::size_t longest_line = 1 << 20;

void write_log(int log, std::string_view bytes) {
  while (log >= 0 && !bytes.empty()) {
    const ssize_t wrote = ::write(log, bytes.data(), bytes.size());
    if (wrote < 0) return;  // a full disk must not end the job
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

}  // namespace

Outlet::Outlet(int fd) : fd_(fd) {
  struct stat info;
  const bool file = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  at_once_ = file ? limit : PIPE_BUF;
}

void Outlet::flush() {
  if (empty()) return;
  const std::size_t count = std::min(at_once_, waiting_.size() - sent_);
  const ssize_t wrote = ::write(fd_, waiting_.data() + sent_, count);
  if (wrote > 0) sent_ += static_cast<std::size_t>(wrote);
  if (wrote < 0 && errno != EAGAIN && errno != EINTR) broken_ = true;
  if (broken_) sent_ = waiting_.size();
  if (empty() || sent_ >= limit) {
    waiting_.erase(0, sent_);
    sent_ = 0;
  }
}

RankOutput::RankOutput(Descriptor from, std::string label, bool lines, int log, Outlet& to, std::string& last_line)
    : from_(std::move(from)), label_(std::move(label)), lines_(lines), log_(log), to_(&to), last_line_(&last_line) {}

bool RankOutput::read_some() {
  std::array<char, 64 * 1024> bytes;
  const ssize_t got = ::read(from_.get(), bytes.data(), bytes.size());
  if (got > 0) {
    const std::string_view text{bytes.data(), static_cast<std::size_t>(got)};
    write_log(log_, text);
    pass_on(text);
    return true;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  close();
  return false;
}

void RankOutput::pass_on(std::string_view bytes) {
  if (!lines_) to_->put(bytes);
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t room = longest_line - unfinished_.size();
    if (end == std::string_view::npos && bytes.size() < room) {
      unfinished_.append(bytes);
      return;
    }
    const std::size_t length = std::min(end, room);
    unfinished_.append(bytes.substr(0, length));
    bytes.remove_prefix(std::min(bytes.size(), length + (length == end ? 1 : 0)));
    finish_line(unfinished_);
    unfinished_.clear();
  }
}

void RankOutput::finish_line(std::string_view line) {
  if (line.find_first_not_of(" \t\r") != std::string_view::npos) last_line_->assign(line.substr(0, 400));
  if (!lines_) return;
  to_->put(label_);
  to_->put(line);
  to_->put("\n");
}

void RankOutput::close() {
  if (!open()) return;
  if (!unfinished_.empty()) finish_line(unfinished_);
  unfinished_.clear();
  from_.reset();
}

}  // namespace tutti::tools
