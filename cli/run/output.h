#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/descriptor.h"

namespace tutti::cli {

/// Text to be written to stdout or stderr of the runner. Never blocks: text that cannot be written now is queued, and
/// the runner stops reading from the ranks while the queue is long.
class Outlet {
 public:
  explicit Outlet(int fd);

  /// Appends the text of `writer`, a key that is only compared, in up to three parts. An unfinished line of another
  /// writer is ended first, so that no line has text of two writers.
  void put(const void* writer, std::string_view text, std::string_view more = {}, std::string_view last = {});
  /// True while the last line is unfinished and of this writer, so that its next text continues that line.
  bool continues(const void* writer) const { return mid_line_ && writer_ == writer; }
  /// The display has begun a new line by itself, as a terminal does after the Enter key.
  void line_was_ended() { mid_line_ = false; }
  /// Writes as much as the descriptor takes; call it when poll() says that it is writable.
  void flush();

  int fd() const { return fd_; }
  bool empty() const { return sent_ == waiting_.size(); }
  bool full() const { return waiting_.size() - sent_ >= limit; }
  /// The errno of the failed write, 0 if none failed. After a failure all text is dropped.
  int error() const { return error_; }

 private:
  static constexpr std::size_t limit = 256 * 1024;

  int fd_;
  std::size_t at_once_;  // bytes that a descriptor takes without blocking when poll() calls it writable
  std::string waiting_;
  std::size_t sent_ = 0;
  int error_ = 0;
  const void* writer_ = nullptr;  // of the last line
  bool mid_line_ = false;
};

/// What is kept of one rank's output: its last line, and its log file if it has one.
struct Transcript {
  Descriptor log;  ///< empty: no log, or writing it has failed
  std::string log_path;
  int log_error = 0;  ///< the errno with which writing the log failed
  std::string last_line;
};

/// The output of one rank on one descriptor: passed on in whole lines, each after the rank's label. A line that stays
/// unfinished (a prompt, a progress bar) is shown after a moment, and continued in place unless another line came
/// between. '\r' ends a line, too: the following text overwrites the label and so is labelled again.
class RankOutput {
 public:
  using Clock = std::chrono::steady_clock;
  /// An unfinished line is shown this long after its first byte;
  static constexpr std::chrono::milliseconds patience{100};
  /// but if this many bytes came at once, its program writes whole buffers, and the rest is only late.
  static constexpr std::size_t block = 4096;
  static constexpr std::chrono::milliseconds block_patience{1000};

  /// `lines` false passes bytes on as they come. `transcript` is shared by both outputs of a rank.
  RankOutput(Descriptor from, std::string label, bool lines, Outlet& to, Transcript& transcript);

  int fd() const { return from_.get(); }
  bool open() const { return static_cast<bool>(from_); }
  const Outlet& outlet() const { return *to_; }
  /// Reads what is available. False: nothing more is.
  bool read_some();
  /// When to show an unfinished line; never while the outlet is full and the rest is not read.
  std::optional<Clock::time_point> show_at() const { return to_->full() ? std::nullopt : show_at_; }
  /// Shows an unfinished line if it is time.
  void show_if_due(Clock::time_point now);
  /// Passes on an unfinished last line and closes.
  void close();

 private:
  void pass_on(std::string_view bytes);
  /// Remembers `line` as the rank's last line, unless it is blank.
  void note_line(std::string_view line);
  /// Ends it, with "\n", "\r" or "\r\n".
  void end_line(std::string_view line, std::string_view ending);
  /// Passes on the part of the line that has not been shown, then `ending`.
  void put_rest(std::string_view line, std::string_view ending);

  Descriptor from_;
  std::string label_;
  bool lines_;
  Outlet* to_;
  Transcript* transcript_;
  std::string line_;       // text since the last line end
  std::size_t shown_ = 0;  // bytes of it
  bool returned_ = false;  // a '\r' came last, which may become "\r\n"
  std::optional<Clock::time_point> show_at_;
};

}  // namespace tutti::cli
