#pragma once

#include <string>
#include <string_view>

#include "lib/base/descriptor.h"

namespace tutti::tools {

/// Text on its way to stdout or stderr of the runner. Never blocks: what does not go out now waits, and the runner
/// stops reading from the ranks while much is waiting.
class Outlet {
 public:
  explicit Outlet(int fd);

  void put(std::string_view text) {
    if (!broken_) waiting_.append(text);
  }
  /// Writes what the descriptor takes; call when poll() says it takes something.
  void flush();

  int fd() const { return fd_; }
  bool empty() const { return sent_ == waiting_.size(); }
  bool full() const { return waiting_.size() - sent_ >= limit; }
  /// Nobody reads any more; everything put is dropped.
  bool broken() const { return broken_; }

 private:
  static constexpr std::size_t limit = 256 * 1024;

  int fd_;
  std::size_t at_once_;  // bytes that a descriptor which poll() calls writable takes without blocking
  std::string waiting_;
  std::size_t sent_ = 0;
  bool broken_ = false;
};

/// What one rank writes on one descriptor: passed on in whole lines, each behind the rank's label.
class RankOutput {
 public:
  /// `lines` false passes bytes on as they come. `log` (-1: none) gets the bytes without labels. `last_line` is shared
  /// by both outputs of a rank.
  RankOutput(Descriptor from, std::string label, bool lines, int log, Outlet& to, std::string& last_line);

  int fd() const { return from_.get(); }
  bool open() const { return static_cast<bool>(from_); }
  const Outlet& outlet() const { return *to_; }
  /// Takes what is there. False: nothing more was there.
  bool read_some();
  /// Passes on an unfinished last line and closes.
  void close();

 private:
  void pass_on(std::string_view bytes);
  void finish_line(std::string_view line);

  Descriptor from_;
  std::string label_;
  bool lines_;
  int log_;
  Outlet* to_;
  std::string* last_line_;
  std::string unfinished_;
};

}  // namespace tutti::tools
