#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/descriptor.h"

namespace tutti::cli {

/// Text on its way to stdout or stderr of the runner. Never blocks: what does not go out now waits, and the runner
/// stops reading from the ranks while much is waiting.
class Outlet {
 public:
  explicit Outlet(int fd);

  /// Appends the text of `writer`, which is only compared, in up to three parts. Where another writer's line is
  /// unfinished it is ended first, so that no line is of two writers.
  void put(const void* writer, std::string_view text, std::string_view more = {}, std::string_view last = {});
  /// True while the last line is unfinished and of this writer: what it puts next stands behind that.
  bool continues(const void* writer) const { return mid_line_ && writer_ == writer; }
  /// What shows the text has begun a new line by itself, as a terminal does after the Enter key.
  void line_was_ended() { mid_line_ = false; }
  /// Writes what the descriptor takes; call when poll() says it takes something.
  void flush();

  int fd() const { return fd_; }
  bool empty() const { return sent_ == waiting_.size(); }
  bool full() const { return waiting_.size() - sent_ >= limit; }
  /// The errno with which writing failed, 0 before that. From then on everything put is dropped.
  int error() const { return error_; }

 private:
  static constexpr std::size_t limit = 256 * 1024;

  int fd_;
  std::size_t at_once_;  // bytes that a descriptor which poll() calls writable takes without blocking
  std::string waiting_;
  std::size_t sent_ = 0;
  int error_ = 0;
  const void* writer_ = nullptr;  // of the last line
  bool mid_line_ = false;
};

/// What is kept of all that one rank writes: its last line, and its log file if it has one.
struct Transcript {
  Descriptor log;  ///< empty: none, or it could not be written any more
  std::string log_path;
  int log_error = 0;  ///< the errno with which writing the log failed
  std::string last_line;
};

/// What one rank writes on one descriptor: passed on in whole lines, each behind the rank's label. A line that stays
/// unfinished (a prompt, a progress bar) is shown after a moment, and continued where it stands, unless another line
/// came between. '\r' ends a line too: what follows it is labelled anew, since it overwrites the label.
class RankOutput {
 public:
  using Clock = std::chrono::steady_clock;
  /// An unfinished line is shown so long after its first byte;
  static constexpr std::chrono::milliseconds patience{100};
  /// but if so many bytes came at once, its program writes whole buffers, and the rest is only late.
  static constexpr std::size_t block = 4096;
  static constexpr std::chrono::milliseconds block_patience{1000};

  /// `lines` false passes bytes on as they come. `transcript` is shared by both outputs of a rank.
  RankOutput(Descriptor from, std::string label, bool lines, Outlet& to, Transcript& transcript);

  int fd() const { return from_.get(); }
  bool open() const { return static_cast<bool>(from_); }
  const Outlet& outlet() const { return *to_; }
  /// Takes what is there. False: nothing more was there.
  bool read_some();
  /// When an unfinished line is to be shown; never while so much is waiting that nobody reads the rest of it.
  std::optional<Clock::time_point> show_at() const { return to_->full() ? std::nullopt : show_at_; }
  /// Shows what is there of an unfinished line, if it is time.
  void show_if_due(Clock::time_point now);
  /// Passes on an unfinished last line and closes.
  void close();

 private:
  void pass_on(std::string_view bytes);
  /// Remembers `line` as the rank's last line, unless it is blank.
  void note_line(std::string_view line);
  /// Ends it, with "\n", "\r" or "\r\n".
  void end_line(std::string_view line, std::string_view ending);
  /// Passes on what has not been shown of the line, then `ending`.
  void put_rest(std::string_view line, std::string_view ending);

  Descriptor from_;
  std::string label_;
  bool lines_;
  Outlet* to_;
  Transcript* transcript_;
  std::string line_;       // since the last line end
  std::size_t shown_ = 0;  // bytes of it
  bool returned_ = false;  // a '\r' followed, of which "\r\n" may become
  std::optional<Clock::time_point> show_at_;
};

}  // namespace tutti::cli
