// Output of the ranks: read from pipes, cut into lines, labelled, queued, written.
//
//   rank's pipe --> RankOutput (one unfinished line) --> Outlet (a bounded queue) --> stdout or stderr
//
// Lines of different ranks never mix: a line is written in one piece. An unfinished line that was shown is ended before
// another rank's line. Only lines above 1 MiB are split.

#include "cli/run/output.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cli/base/output.h"

namespace tutti::cli {
namespace {

constexpr std::size_t longest_line = 1 << 20;
constexpr std::size_t longest_last_line = 400;

/// Finds the ends of lines in a text. Each byte is examined once for '\n' and once for '\r', with the fastest search
/// for a single byte.
class LineEnds {
 public:
  explicit LineEnds(std::string_view text) : text_(text), newline_(from(0, '\n')), return_(from(0, '\r')) {}

  /// The first one at or after `at`, or the end of the text.
  std::size_t next(std::size_t at) {
    if (newline_ < at) newline_ = from(at, '\n');
    if (return_ < at) return_ = from(at, '\r');
    return std::min(newline_, return_);
  }

 private:
  std::size_t from(std::size_t at, char letter) const { return std::min(text_.find(letter, at), text_.size()); }

  std::string_view text_;
  std::size_t newline_;
  std::size_t return_;
};

/// A full disk must not end the job; the runner reports the state of the log.
void write_log(Transcript& transcript, std::string_view bytes) {
  if (!transcript.log || write_all(transcript.log.get(), bytes)) return;
  transcript.log_error = errno;
  transcript.log.reset();
}

}  // namespace

Outlet::Outlet(int fd) : fd_(fd) {
  struct stat info;
  const bool file = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  at_once_ = file ? limit : PIPE_BUF;
}

void Outlet::put(const void* writer, std::string_view text, std::string_view more, std::string_view last) {
  if (error_ != 0 || text.size() + more.size() + last.size() == 0) return;
  if (mid_line_ && writer_ != writer) waiting_ += '\n';
  waiting_.append(text).append(more).append(last);
  writer_ = writer;
  mid_line_ = waiting_.back() != '\n';
}

void Outlet::flush() {
  if (empty()) return;
  const std::size_t count = std::min(at_once_, waiting_.size() - sent_);
  const ssize_t wrote = ::write(fd_, waiting_.data() + sent_, count);
  if (wrote > 0) sent_ += static_cast<std::size_t>(wrote);
  if (wrote < 0 && errno != EAGAIN && errno != EINTR) error_ = errno;
  if (error_ != 0) sent_ = waiting_.size();
  if (empty() || sent_ >= limit) {
    waiting_.erase(0, sent_);
    sent_ = 0;
  }
}

RankOutput::RankOutput(Descriptor from, std::string label, bool lines, Outlet& to, Transcript& transcript)
    : from_(std::move(from)), label_(std::move(label)), lines_(lines), to_(&to), transcript_(&transcript) {}

bool RankOutput::read_some() {
  std::array<char, 64 * 1024> bytes;
  const ssize_t got = ::read(from_.get(), bytes.data(), bytes.size());
  if (got > 0) {
    const std::string_view text{bytes.data(), static_cast<std::size_t>(got)};
    write_log(*transcript_, text);
    pass_on(text);
    return true;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  close();
  return false;
}

void RankOutput::pass_on(std::string_view bytes) {
  if (!lines_) to_->put(transcript_, bytes);  // both outputs are one writer, so their bytes are not changed
  LineEnds ends{bytes};
  for (std::size_t at = 0; at < bytes.size();) {
    if (std::exchange(returned_, false)) {
      const bool both = bytes[at] == '\n';
      end_line(line_, both ? "\r\n" : "\r");
      at += both ? 1 : 0;
      continue;
    }
    const std::size_t length = std::min(ends.next(at) - at, longest_line - line_.size());
    const std::string_view piece = bytes.substr(at, length);
    at += length;
    if (line_.empty() && at < bytes.size() && bytes[at] == '\n') {  // most lines: not copied
      ++at;
      end_line(piece, "\n");
      continue;
    }
    line_.append(piece);
    if (line_.size() == longest_line) {
      end_line(line_, "\n");
    } else if (at < bytes.size()) {
      returned_ = bytes[at++] == '\r';
      if (!returned_) end_line(line_, "\n");
    }
  }
  if (!lines_ || line_.size() == shown_) return;
  const Clock::time_point due = Clock::now() + (bytes.size() < block ? patience : block_patience);
  show_at_ = std::min(show_at_.value_or(due), due);
}

void RankOutput::show_if_due(Clock::time_point now) {
  if (!show_at() || now < *show_at()) return;
  read_some();  // the input that came while the outlet was full
  if (!show_at_ || now < *show_at_) return;
  show_at_.reset();
  put_rest(line_, "");
  shown_ = line_.size();
  note_line(line_);
}

void RankOutput::note_line(std::string_view line) {
  const bool blank = line.find_first_not_of(" \t") == std::string_view::npos;
  if (!blank) transcript_->last_line.assign(line.substr(0, longest_last_line));
}

void RankOutput::end_line(std::string_view line, std::string_view ending) {
  note_line(line);
  if (lines_) put_rest(line, ending);
  line_.clear();
  shown_ = 0;
  show_at_.reset();
}

void RankOutput::put_rest(std::string_view line, std::string_view ending) {
  const bool goes_on = to_->continues(this);
  const std::string_view rest = line.substr(shown_);
  const bool was_ended = shown_ > 0 && !goes_on;  // by another rank's line
  if (rest.empty() && was_ended) return;
  if (line.empty() && ending == "\r") return;  // there is nothing to overwrite
  to_->put(this, shown_ == 0 || was_ended ? std::string_view{label_} : "", rest, ending);
}

void RankOutput::close() {
  if (!open()) return;
  returned_ = false;
  if (!line_.empty())
    end_line(line_, "\n");
  else if (to_->continues(this))
    to_->put(this, "\n");  // a progress bar ended with '\r'
  from_.reset();
}

}  // namespace tutti::cli
