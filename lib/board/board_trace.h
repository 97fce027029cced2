#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/board/board_call.h"
#include "lib/observe/trace/recorder.h"
#include "transport/frame.h"

namespace tutti::detail {

class Group;

/// What a rank's calls over a board did, for its trace. Costs one look at a pointer if no trace is recorded.
class BoardTrace {
 public:
  /// A round of a call. The post, wait and take of an inline call of one round are a single record, which its caller
  /// writes.
  struct Round {
    const BoardCall& call;
    const transport::CallWords& words;
    int number = 0;
    bool is_inline = false;
    bool has_own_records() const { return !is_inline || call.rounds() > 1; }
  };
  /// In ticks: when the latest call began, since when its round could not begin (0: it could at once), when it began,
  /// when the contribution was on the board, and when all had come. `posted` is 0 for a post that takes hardly longer
  /// than a look at the clock.
  struct Times {
    std::int64_t begun = 0;
    std::int64_t waited_since = 0;
    std::int64_t round_begun = 0;
    std::int64_t posted = 0;
    std::int64_t here = 0;
  };

  explicit BoardTrace(Group& group);

  const Times& times() const { return times_; }
  void round_begins() noexcept {
    if (recorder_) [[unlikely]]
      times_.round_begun = trace::ticks();
  }
  void waits_to_begin() noexcept {
    if (recorder_ && times_.waited_since == 0) [[unlikely]]
      times_.waited_since = trace::ticks();
  }
  /// `round()` makes the Round.
  template <class MakeRound>
  void posted(const MakeRound& round) noexcept {
    if (recorder_) [[unlikely]]
      note_post(round());
  }
  /// A call that was begun inline, and is now an operation, has records of its own.
  void taken_over(const Round& round) noexcept {
    if (recorder_ && round.call.rounds() == 1) [[unlikely]]
      record_post(round);
  }
  std::int64_t now() const noexcept { return recorder_ ? trace::ticks() : 0; }
  /// Since `begin`, that many bytes of results that wait for no other rank have been copied.
  void copied_own(const Round& round, std::int64_t begin, std::size_t bytes) noexcept {
    if (recorder_ && bytes > trace::tiny) [[unlikely]]
      record_copy(round, begin, bytes);
  }
  void others_are_here() noexcept {
    if (recorder_) [[unlikely]]
      times_.here = trace::ticks_after();
  }
  template <class MakeRound>
  void taken(const MakeRound& round) noexcept {
    if (recorder_) [[unlikely]]
      note_take(round());
  }

 private:
  trace::Record record_of(const Round& round, trace::Kind kind) const noexcept;
  void note_post(const Round& round) noexcept;
  void note_take(const Round& round) noexcept {
    if (round.has_own_records()) record_take(round);
  }
  void record_post(const Round& round) noexcept;
  void record_turn(const Round& round) noexcept;
  void record_copy(const Round& round, std::int64_t begin, std::size_t bytes) noexcept;
  void record_take(const Round& round) noexcept;

  const Group& group_;
  trace::Recorder* const recorder_;  ///< null: no trace is recorded
  Times times_;
};

}  // namespace tutti::detail
