// A box for people.

#include <fmt/core.h>
#include <time.h>

#include <algorithm>

#include "cli/blackbox/words.h"
#include "lib/collective/call.h"
#include "tutti/options.h"
#include "tutti/types.h"

namespace tutti::cli {
namespace {

using black_box::CallRecord;
using black_box::OperationRecord;
using black_box::printable;
using black_box::Snapshot;
using black_box::State;

constexpr std::int64_t nanoseconds_per_second = 1'000'000'000;

/// Nanoseconds of CLOCK_REALTIME as local time, "12:03:44.123456".
std::string clock_text(std::int64_t time) {
  const time_t seconds = time / nanoseconds_per_second;
  tm parts{};
  ::localtime_r(&seconds, &parts);
  return fmt::format("{:02}:{:02}:{:02}.{:06}", parts.tm_hour, parts.tm_min, parts.tm_sec,
                     time % nanoseconds_per_second / 1000);
}

std::string line_of(const OperationRecord& entry, const Snapshot& box) {
  const CallRecord& call = entry.call;
  const std::string took = is_timed(entry, box) ? fmt::format("{:.6f}", seconds_in(entry, box)) : "?";
  std::string line = fmt::format("  {}  {:>12} s  {}: {}", clock_text(wall_clock(call, call.started)), took,
                                 name_of_group(entry, box), describe(call));
  if (call.algorithm[0] != '\0') line += fmt::format(" with {}", call.algorithm.data());
  const char* const part = (call.flags & black_box::Flags::on_board) != 0 ? "round" : "step";
  if (call.parts > 0)
    line += fmt::format(", {}/{} {}{}", entry.parts_done, call.parts, part, call.parts == 1 ? "" : "s");
  line += fmt::format(", {} bytes, {}", entry.bytes, name_of_state(entry.state));
  if (entry.state == State::failed) line += fmt::format(": {}", entry.failure);
  return printable(line) + "\n";
}

}  // namespace

bool is_message(const CallRecord& call) {
  return call.collective == black_box::send || call.collective == black_box::receive ||
         call.collective == black_box::probe;
}

std::string type_of(const CallRecord& call) {
  return call.type < data_type_count ? name_of(static_cast<DataType>(call.type)) : "?";
}

const char* name_of_state(State state) {
  return state == State::done ? "done" : state == State::failed ? "failed" : "not done";
}

// The arithmetic is unsigned, so that nonsense in a foreign file cannot overflow.

std::int64_t wall_clock(const CallRecord& call, std::int64_t time) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(time) + static_cast<std::uint64_t>(call.realtime));
}

bool is_timed(const OperationRecord& entry, const Snapshot& box) { return entry.state != State::started || !box.gone; }

double seconds_in(const OperationRecord& entry, const Snapshot& box) {
  const std::int64_t until = entry.state == State::started ? box.taken : entry.ended;
  return static_cast<double>(static_cast<std::int64_t>(static_cast<std::uint64_t>(until) -
                                                       static_cast<std::uint64_t>(entry.call.started))) /
         1e9;
}

std::string name_of_group(const OperationRecord& entry, const Snapshot& box) {
  if (entry.number <= box.earlier) return "an earlier world";
  for (const black_box::Member& one : box.groups)
    if (one.group == entry.call.group)
      return one.number == 1 && one.size == box.size ? "world"
                                                     : fmt::format("group {} of {} ranks", one.number - 1, one.size);
  return "a group that is gone";
}

std::span<const OperationRecord> newest(const Snapshot& box, std::size_t most) {
  return std::span(box.entries).last(std::min(most, box.entries.size()));
}

std::string describe(const CallRecord& call) {
  if (is_message(call)) {
    const bool sends = call.collective == black_box::send;
    const std::string peer = call.root == any_source ? "any rank" : fmt::format("rank {}", call.root);
    const std::string tag = call.tag == any_tag ? "any tag" : fmt::format("tag {}", call.tag);
    if (call.collective == black_box::probe) return fmt::format("probe from {} ({})", peer, tag);
    return fmt::format("{} of {} x {} {} {} ({})", sends ? "send" : "recv", call.count, type_of(call),
                       sends ? "to" : "from", peer, tag);
  }
  if (call.collective >= collective_count) return "an unknown call";
  const auto collective = static_cast<Collective>(call.collective);
  std::string text = fmt::format("{}{} #{}", name_of(collective),
                                 (call.flags & black_box::Flags::variable) != 0 ? "_v" : "", call.operation);
  if (collective == Collective::barrier) return text;
  const bool variable = (call.flags & black_box::Flags::variable) != 0;
  const std::uint64_t elements = detail::elements_of(call.count, variable);
  text += variable && collective == Collective::all_to_all
              ? " (" + type_of(call)
              : fmt::format(" ({} x {}{}", elements, type_of(call), variable ? " in all" : "");
  if (detail::is_reduction(collective)) text += fmt::format(", {}", name_of(static_cast<OpKind>(call.op)));
  if (detail::is_rooted(collective)) text += fmt::format(", root {}", call.root);
  return text + ")";
}

std::string as_text(const Snapshot& box, std::size_t most) {
  const std::uint64_t operations = box.entries.empty() ? 0 : box.entries.back().number;
  std::string text = printable(fmt::format("rank {} of {} (host {}, pid {}), tutti {}: {} operations", box.rank,
                                           box.size, box.host, box.pid, box.version, operations)) +
                     "\n";
  for (const OperationRecord& entry : newest(box, most)) text += line_of(entry, box);
  return text;
}

}  // namespace tutti::cli
