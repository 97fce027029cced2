#include "lib/observe/trace/chrome.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "lib/observe/trace/chrome_trace_builder.h"
#include "tutti/types.h"

namespace tutti::trace {
namespace {

using Track = ChromeTraceBuilder::Track;

/// The carrier of a message, on which messages are numbered.
enum class Way : std::uint8_t { link, board, point_to_point, stream, credit };

/// A number that is the same at both ends, and unique. Programs read it as a double: 53 bits.
std::uint64_t arrow_number(std::uint64_t group, Way way, int from, int to, std::uint64_t number) {
  std::uint64_t digest = group;
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(way), static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to), number}) {
    digest = (digest ^ part) * 0x9e3779b97f4a7c15;
    digest ^= digest >> 29;
    digest *= 0xbf58476d1ce4e5b9;
    digest ^= digest >> 32;
  }
  return digest & ((std::uint64_t{1} << 53) - 1);
}

std::string collective_text(const Record& record) {
  const bool known = record.collective < collective_count;
  return known ? name_of(static_cast<Collective>(record.collective)) : "?";
}

std::string type_text(const Record& record) {
  return record.type < data_type_count ? name_of(static_cast<DataType>(record.type)) : "?";
}

std::uint64_t type_bytes(const Record& record) {
  return record.type < data_type_count ? size_of(static_cast<DataType>(record.type)) : 0;
}

class Writer {
 public:
  Writer(const Snapshot& snapshot, const BoardReads& board_reads)
      : snapshot_(snapshot), board_reads_(board_reads), builder_(snapshot.rank) {}

  void write(const std::function<void(std::string_view)>& put) {
    for (const Record& record : snapshot_.records) add(record);
    for (const auto& [key, record] : begun_)
      call(record, std::max(latest_, snapshot_.time(record.begin)), R"(,"unfinished":true)");
    introduce(put);
    builder_.write(put);
  }

 private:
  void introduce(const std::function<void(std::string_view)>& put) const;
  void add(const Record& record);
  void call(const Record& record, std::int64_t end, std::string_view state);
  void inline_call(const Record& record);
  void send(const Record& record);
  void receive(const Record& record);
  void board_message(const Record& record);
  void message(const Record& record);
  void take(const Record& record);
  void stream(const Record& record);
  void stream_step(const Record& record);
  void stream_message(const Record& record);
  void within_stream(const Record& record);
  void work(const Record& record, std::string_view category, const char* name);

  std::int64_t time(std::int64_t ticks) const { return snapshot_.time(ticks); }
  std::uint64_t id_of(const Record& record) const {
    return record.group < snapshot_.groups.size() ? snapshot_.groups[record.group].id : 0;
  }
  std::string group_text(const Record& record) const { return fmt::format(R"("group":"{:x}")", id_of(record)); }
  std::string part_text(const Record& record) const {
    return fmt::format(R"("call":"{} #{}",{},"operation":{}{})", collective_text(record), record.operation,
                       group_text(record), record.operation, (record.flags & Flags::failed) ? R"(,"failed":true)" : "");
  }
  std::string step_text(const Record& record) const {
    return fmt::format(R"({},"step":{},"bytes":{})", part_text(record), record.step, record.bytes);
  }
  /// Messages of streams are numbered apart from others. What is no step of the plan has no number of one.
  std::string stream_text(const Record& record) const {
    return fmt::format(R"({},"on_stream":true{},"bytes":{})", part_text(record),
                       record.step == no_step ? "" : fmt::format(R"(,"step":{})", record.step), record.bytes);
  }
  void arrow(std::size_t slice, const Record& record, Way way, bool begins, std::int64_t at, std::uint64_t number) {
    if (id_of(record) == 0) return;  // messages of several communicators have that number
    const int from = begins ? snapshot_.rank : record.peer;
    const int to = begins ? record.peer : snapshot_.rank;
    builder_.arrow(slice, {arrow_number(id_of(record), way, from, to, number), begins, from, to, record.bytes, at});
  }

  const Snapshot& snapshot_;
  const BoardReads& board_reads_;
  ChromeTraceBuilder builder_;
  std::map<std::pair<std::uint16_t, std::uint32_t>, Record> begun_;
  std::map<std::tuple<std::uint16_t, int, bool>, std::int64_t> link_free_;  // by group, peer and whether it sends
  std::optional<std::size_t> board_slice_;
  std::optional<std::size_t> stream_slice_;  // of the call `stream_`
  Record stream_;
  std::int64_t latest_ = 0;
};

void Writer::introduce(const std::function<void(std::string_view)>& put) const {
  const std::string host = escaped(snapshot_.host);
  put(fmt::format(
      R"x({{"name":"process_name","ph":"M","pid":{},"tid":0,"args":{{"name":"rank {} (host {}, pid {})"}}}})x",
      snapshot_.rank, snapshot_.rank, host, snapshot_.pid));
  put(fmt::format(R"({{"name":"process_sort_index","ph":"M","pid":{},"tid":0,"args":{{"sort_index":{}}}}})",
                  snapshot_.rank, snapshot_.rank));
  // Not as metadata, since viewers complain about unknown names there.
  std::int64_t first = snapshot_.records.empty() ? snapshot_.opened.ticks : snapshot_.records.front().begin;
  for (const Record& record : snapshot_.records) first = std::min(first, record.begin);
  put(fmt::format(R"({{"name":"tutti_rank","cat":"rank","ph":"i","s":"p","pid":{},"tid":{},"ts":{},)"
                  R"("args":{{"rank":{},"size":{},"host":"{}",)"
                  R"("records":{},"lost":{},"closed":{},"clock":"{}","clock_of_rank":{},"offset_ns":{},)"
                  R"("uncertainty_ns":{}}}}})",
                  snapshot_.rank, ChromeTraceBuilder::thread_of_calls, microseconds(time(first)), snapshot_.rank,
                  snapshot_.size, host, snapshot_.written, snapshot_.lost, snapshot_.closed,
                  snapshot_.counts ? "tsc" : "CLOCK_MONOTONIC", snapshot_.reference, snapshot_.offset,
                  snapshot_.uncertainty));
}

void Writer::add(const Record& record) {
  latest_ = std::max({latest_, time(record.begin), record.end ? time(record.end) : 0});
  if (record.flags & Flags::on_stream) return stream_step(record);
  switch (record.kind) {
    case Kind::begun:
      begun_[{record.group, record.operation}] = record;
      return;
    case Kind::call:
      begun_.erase({record.group, record.operation});
      return call(record, time(record.end), (record.flags & Flags::failed) ? R"(,"failed":true)" : "");
    case Kind::inline_call:
      return inline_call(record);
    case Kind::send:
      return send(record);
    case Kind::receive:
      return receive(record);
    case Kind::copy:
      return work(record, "copy", "copy");
    case Kind::to_host:
    case Kind::to_device:
      return stream_step(record);
    case Kind::stream:
    case Kind::left_out:
      return stream(record);
    case Kind::reduce:
      return work(record, "reduction", "reduce");
    case Kind::post:
      board_slice_ =
          builder_.slice(Track::board, 0, time(record.begin), time(record.end), "board", "post", step_text(record));
      return;
    case Kind::take:
      return take(record);
    case Kind::board_send:
    case Kind::board_receive:
      return board_message(record);
    case Kind::message_send:
    case Kind::message_receive:
      return message(record);
    case Kind::sleep:
      builder_.slice(Track::work, 0, time(record.begin), time(record.end), "wait", "sleep", "");
      return;
    case Kind::away:
      builder_.slice(Track::work, 0, time(record.begin), time(record.end), "away", "away", "");
      return;
  }
}

void Writer::call(const Record& record, std::int64_t end, std::string_view state) {
  const std::string algorithm = record.name < snapshot_.names.size() ? escaped(snapshot_.names[record.name]) : "";
  const bool has_group = record.group < snapshot_.groups.size();
  const Snapshot::Group group = has_group ? snapshot_.groups[record.group] : Snapshot::Group{};
  builder_.slice(
      Track::calls, 0, time(record.begin), end, "call",
      fmt::format("{} #{}", collective_text(record), record.operation),
      fmt::format(R"("collective":"{}",{},"operation":{},"algorithm":"{}","count":{},"type":"{}","op":"{}",)"
                  R"("root":{},"ranks":{},"place":{},"variable":{},"bytes":{}{})",
                  collective_text(record), group_text(record), record.operation, algorithm, record.count,
                  type_text(record), name_of(static_cast<OpKind>(record.op)), record.peer, group.size, group.rank,
                  (record.flags & Flags::variable) != 0, record.count * type_bytes(record), state));
}

/// The messages of such a call follow from its algorithm.
void Writer::inline_call(const Record& record) {
  call(record, time(record.end), R"(,"at_once":true)");
  const std::int64_t begin = time(record.begin);
  const std::int64_t here = time(record.middle);
  const std::int64_t end = time(record.end);
  Record step = record;
  step.step = 0;
  step.bytes =
      record.collective == static_cast<std::uint8_t>(Collective::barrier) ? 0 : record.count * type_bytes(record);
  const std::string text = step_text(step);
  std::size_t first = 0;
  std::size_t last = 0;
  if (record.bytes != 0) {  // when it was on the board
    const std::int64_t posted = time(static_cast<std::int64_t>(record.bytes));
    first = builder_.slice(Track::board, 0, begin, posted, "board", "post", text);
    last = builder_.slice(Track::board, 0, posted, here, "wait", "wait", text);
  } else {
    first = last = builder_.slice(Track::board, 0, begin, here, "wait", "post and wait", text);
  }
  if (end > here) last = builder_.slice(Track::board, 0, here, end, "board", "take", text);
  if (record.group >= snapshot_.groups.size() || record.collective >= collective_count) return;
  const Snapshot::Group& group = snapshot_.groups[record.group];
  const auto collective = static_cast<Collective>(record.collective);
  const std::string algorithm = record.name < snapshot_.names.size() ? snapshot_.names[record.name] : "";
  const int size = static_cast<int>(group.members.size());
  for (int peer = 0; peer < size; ++peer) {
    if (peer == group.rank) continue;
    step.peer = group.members[static_cast<std::size_t>(peer)];
    const std::uint64_t number = std::uint64_t{record.operation} << 24;
    if (board_reads_(collective, algorithm, size, record.peer, peer, group.rank))
      arrow(first, step, Way::board, true, begin, number);
    if (board_reads_(collective, algorithm, size, record.peer, group.rank, peer))
      arrow(last, step, Way::board, false, end, number);
  }
}

/// It begins when the previous one has ended, or when it was given to its link. A single-copy message ends late, when
/// it has been read, and the next one may have begun by then.
void Writer::send(const Record& record) {
  std::int64_t& free = link_free_[{record.group, record.peer, true}];
  const std::int64_t given = record.middle ? time(record.middle) : time(record.end);
  const std::int64_t begin = std::max(std::min(free, given), time(record.begin));
  free = time(record.end);
  const std::string text = step_text(record);
  const std::int64_t at_once = (record.flags & Flags::at_once) ? time(record.end) : given;
  const std::size_t slice = builder_.slice(Track::to, record.peer, begin, free, "message", "send",
                                           fmt::format(R"({},"to":{},"number":{},"given_ns":{})", text, record.peer,
                                                       record.count, std::max<std::int64_t>(0, given - begin)));
  if (record.middle && record.count) arrow(slice, record, Way::link, true, given, record.count);
  builder_.slice(Track::work, 0, time(record.begin), at_once, "step", "send", text);
}

/// It begins when it is the next message that its link waits for.
void Writer::receive(const Record& record) {
  std::int64_t& free = link_free_[{record.group, record.peer, false}];
  const std::int64_t begin = std::max(free, time(record.begin));
  free = time(record.end);
  const std::int64_t arrives = record.middle ? time(record.middle) : free;
  const std::size_t slice =
      builder_.slice(Track::from, record.peer, begin, free, "message",
                     (record.flags & Flags::reduces) ? "receive and reduce" : "receive",
                     fmt::format(R"({},"from":{},"number":{},"waited_ns":{})", step_text(record), record.peer,
                                 record.count, std::max<std::int64_t>(0, arrives - begin)));
  if (arrives > begin) builder_.inner(arrives, fmt::format("wait for rank {}", record.peer));
  if (record.middle && record.count) arrow(slice, record, Way::link, false, free, record.count);
}

void Writer::take(const Record& record) {
  const std::string text = step_text(record);
  board_slice_ = builder_.slice(Track::board, 0, time(record.begin), time(record.middle), "wait", "wait", text);
  if (record.end > record.middle)
    board_slice_ = builder_.slice(Track::board, 0, time(record.middle), time(record.end), "board", "take", text);
}

void Writer::board_message(const Record& record) {
  if (!board_slice_) return;
  const bool begins = record.kind == Kind::board_send;
  const std::uint64_t number = (std::uint64_t{record.operation} << 24) + record.step;
  arrow(*board_slice_, record, Way::board, begins, time(begins ? record.begin : record.end), number);
}

void Writer::message(const Record& record) {
  const bool sends = record.kind == Kind::message_send;
  const std::int64_t begin = time(record.begin);
  const std::int64_t end = time(record.end);
  const std::size_t slice = builder_.slice(
      sends ? Track::message_to : Track::message_from, record.peer, begin, end, "message", sends ? "send" : "receive",
      fmt::format(R"({},"{}":{},"tag":{},"bytes":{},"type":"{}","number":{}{})", group_text(record),
                  sends ? "to" : "from", record.peer, static_cast<std::int32_t>(record.step), record.bytes,
                  type_text(record), record.count, (record.flags & Flags::failed) ? R"(,"failed":true)" : ""));
  if (!sends && record.middle && time(record.middle) > begin)
    builder_.inner(time(record.middle), fmt::format("wait for rank {}", record.peer));
  if (record.count) arrow(slice, record, Way::point_to_point, sends, sends ? begin : end, record.count);
}

void Writer::stream(const Record& record) {
  const bool is_call = record.kind == Kind::stream;
  const std::string what = is_call
                               ? fmt::format(R"("uncertainty_ns":{},"calls_left_out":{})", record.bytes, record.step)
                               : fmt::format(R"("steps":{})", record.count);
  const std::size_t slice =
      builder_.slice(Track::stream, 0, time(record.begin), time(record.end), is_call ? "stream" : "left out",
                     is_call ? fmt::format("{} #{}", collective_text(record), record.operation)
                             : fmt::format("{} steps left out", record.count),
                     fmt::format("{},{}", part_text(record), what));
  if (!is_call) return within_stream(record);
  stream_slice_ = slice;
  stream_ = record;
}

/// Puts the slice added last into that of its call.
void Writer::within_stream(const Record& record) {
  if (stream_slice_ && stream_.group == record.group && stream_.operation == record.operation)
    builder_.within(*stream_slice_);
}

void Writer::stream_step(const Record& record) {
  if (record.kind == Kind::send || record.kind == Kind::receive) return stream_message(record);
  const bool combines = record.kind == Kind::reduce;
  const char* const name = combines                         ? "reduce"
                           : record.kind == Kind::to_host   ? "to the host"
                           : record.kind == Kind::to_device ? "to the device"
                                                            : "copy";
  builder_.slice(Track::stream, 0, time(record.begin), time(record.end), combines ? "reduction" : "copy", name,
                 stream_text(record));
  within_stream(record);
}

/// A send waits for a slot before its message is given to the link.
void Writer::stream_message(const Record& record) {
  const bool sends = record.kind == Kind::send;
  const bool is_credit = record.flags & Flags::credit;
  const std::int64_t begin = time(record.begin);
  const std::int64_t waited = record.middle ? std::max<std::int64_t>(0, time(record.middle) - begin) : 0;
  const char* const name = is_credit                         ? (sends ? "send credit" : "receive credit")
                           : sends                           ? "send"
                           : (record.flags & Flags::reduces) ? "receive and reduce"
                                                             : "receive";
  const std::size_t slice = builder_.slice(
      Track::stream, 0, begin, time(record.end), "message", name,
      fmt::format(R"({},"{}":{},"number":{},"{}":{}{})", stream_text(record), sends ? "to" : "from", record.peer,
                  record.count, sends ? "given_ns" : "waited_ns", waited, is_credit ? R"(,"credit":true)" : ""));
  if (waited > 0)
    builder_.inner(begin + waited,
                   fmt::format(fmt::runtime(sends ? "wait for a slot at rank {}" : "wait for rank {}"), record.peer));
  within_stream(record);
  if (!(record.flags & Flags::failed))
    arrow(slice, record, is_credit ? Way::credit : Way::stream, sends, sends ? begin + waited : time(record.end),
          record.count);
}

void Writer::work(const Record& record, std::string_view category, const char* name) {
  builder_.slice(Track::work, 0, time(record.begin), time(record.end), category, name, step_text(record));
}

}  // namespace

void write_events(const Snapshot& snapshot, const BoardReads& board_reads,
                  const std::function<void(std::string_view)>& put) {
  Writer{snapshot, board_reads}.write(put);
}

}  // namespace tutti::trace
