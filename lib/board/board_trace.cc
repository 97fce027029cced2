#include "lib/board/board_trace.h"

#include "lib/group/context.h"
#include "lib/group/group.h"

namespace tutti::detail {

BoardTrace::BoardTrace(Group& group) : group_(group), recorder_(group.context().recorder.get()) {}

trace::Record BoardTrace::record_of(const Round& round, trace::Kind kind) const noexcept {
  const transport::Frame frame = transport::frame_of(round.words);
  return {.operation = frame.operation,
          .step = static_cast<std::uint32_t>(round.number),
          .group = group_.trace_index(),
          .kind = kind,
          .collective = frame.collective,
          .type = frame.data_type,
          .op = frame.op};
}

void BoardTrace::note_post(const Round& round) noexcept {
  if (round.number == 0) times_.begun = times_.round_begun;
  const bool is_recorded = round.has_own_records();
  times_.posted = !is_recorded && round.call.part_bytes() <= trace::tiny ? 0 : trace::ticks();
  if (is_recorded && round.call.in_row()) record_turn(round);
  if (is_recorded) record_post(round);
  times_.waited_since = 0;
}

/// In a row a rank waits for the one before it, and then adds to what that one has left.
void BoardTrace::record_turn(const Round& round) noexcept {
  const int before = round.call.row().before(round.number);
  if (before < 0) return;
  trace::Record record = record_of(round, trace::Kind::take);
  record.begin = times_.waited_since == 0 ? times_.round_begun : times_.waited_since;
  record.middle = record.end = times_.round_begun;
  recorder_->add(record);
  record.kind = trace::Kind::board_receive;
  record.peer = group_.global_rank(before);
  record.bytes = round.call.bytes_from(before, round.number);
  recorder_->add(record);
}

void BoardTrace::record_post(const Round& round) noexcept {
  if (times_.posted == 0) times_.posted = times_.round_begun + 1;
  trace::Record record = record_of(round, trace::Kind::post);
  record.begin = times_.round_begun;
  record.end = times_.posted;
  record.bytes = round.call.size_of_round(round.number);
  recorder_->add(record);
  record.kind = trace::Kind::board_send;
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (peer == group_.rank() || !round.call.is_read_by(peer, round.number)) continue;
    record.peer = group_.global_rank(peer);
    record.bytes = round.call.bytes_to(peer, round.number);
    recorder_->add(record);
  }
}

void BoardTrace::record_copy(const Round& round, std::int64_t begin, std::size_t bytes) noexcept {
  trace::Record record = record_of(round, trace::Kind::copy);
  record.begin = begin;
  record.end = trace::ticks();
  record.bytes = bytes;
  recorder_->add(record);
}

void BoardTrace::record_take(const Round& round) noexcept {
  const bool in_row = round.call.in_row();
  if (in_row && round.call.awaited(round.number).empty()) return;
  const int taken = round.number - (in_row ? static_cast<int>(round.call.row().late()) : 0);
  trace::Record record = record_of(round, trace::Kind::take);
  record.step = static_cast<std::uint32_t>(taken);
  record.begin = times_.posted;
  record.middle = times_.here;
  record.end = trace::ticks_after();
  recorder_->add(record);
  record.kind = trace::Kind::board_receive;
  for (const int peer : round.call.awaited(round.number)) {
    record.peer = group_.global_rank(peer);
    record.bytes = round.call.bytes_from(peer, taken);
    recorder_->add(record);
  }
}

}  // namespace tutti::detail
