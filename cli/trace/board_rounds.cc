#include "cli/trace/board_rounds.h"

#include <algorithm>
#include <iterator>

namespace tutti::cli {
namespace {

constexpr const char* post_name = "post";
constexpr const char* wait_name = "wait";
constexpr const char* take_name = "take";
constexpr const char* post_and_wait_name = "post and wait";

}  // namespace

bool BoardRounds::has_slices_named(const std::string& name) {
  return name == post_name || name == wait_name || name == take_name || name == post_and_wait_name;
}

void BoardRounds::add(const Slice& slice) {
  Parts& round = rounds_[{slice.call, slice.round}];
  Part& part = round[slice.thread.first];
  slices_[slice.thread].insert_or_assign(slice.span.begin, Place{slice.span, &part, &round});
  // Only the "post" events have the bytes; "wait" and "take" of the same round have 0.
  part.bytes = std::max(part.bytes, slice.bytes);
  if (slice.name == post_name) part.post = slice.span;
  if (slice.name == post_and_wait_name) part.post = Span{slice.span.begin, slice.span.begin};
  if (slice.name == take_name) part.takes.push_back(slice.span);
  if (slice.name == wait_name || slice.name == post_and_wait_name) part.waits.push_back({slice.span, std::nullopt, {}});
}

void BoardRounds::add(const ArrowEnd& end) {
  Arrow& arrow = arrows_[end.id];
  (end.begins ? arrow.begin : arrow.end) = {end.thread, end.at};
}

/// The slice in which that is, as viewers look for it. Long after the start of the machine, times in microseconds are
/// not exact to the nanosecond.
const BoardRounds::Place* BoardRounds::find(const std::pair<Thread, std::int64_t>& moment) const {
  const auto slices = slices_.find(moment.first);
  if (slices == slices_.end()) return nullptr;
  const auto later = slices->second.upper_bound(moment.second);
  if (later == slices->second.begin()) return nullptr;
  const Place& place = std::prev(later)->second;
  return moment.second <= place.span.end ? &place : nullptr;
}

/// A rank takes after it has waited.
void BoardRounds::order(Part& part) {
  std::sort(part.waits.begin(), part.waits.end(),
            [](const Part::Wait& a, const Part::Wait& b) { return a.wait.begin < b.wait.begin; });
  for (const Span& span : part.takes)
    for (auto one = part.waits.rbegin(); one != part.waits.rend(); ++one)
      if (one->wait.begin <= span.begin) {
        one->take = span;
        break;
      }
}

void BoardRounds::connect() {
  for (const auto& [id, arrow] : arrows_) {
    if (!arrow.begin || !arrow.end) continue;
    const Place* const from = find(*arrow.begin);
    const Place* const to = find(*arrow.end);
    if (!from || !to || from->round != to->round || !from->part->post) continue;
    std::vector<Part::Wait>& waits = to->part->waits;
    const auto later = std::find_if(waits.begin(), waits.end(),
                                    [to](const Part::Wait& one) { return one.wait.begin > to->span.begin; });
    if (later != waits.begin()) std::prev(later)->writers.emplace(arrow.begin->first.first, from->part);
  }
}

/// When the rank had what it waited for in its place. In a row it adds to the sum after it has waited for its turn.
std::int64_t BoardRounds::had(const Part& part, const Part::Wait& one) {
  if (one.take) return one.take->end;
  return part.post && part.post->begin >= one.wait.begin ? std::max(part.post->end, one.wait.end) : one.wait.end;
}

void BoardRounds::put_into(std::map<CallKey, TracedCall>& calls) {
  for (auto& [key, parts] : rounds_)
    for (auto& [rank, part] : parts) order(part);
  connect();
  for (auto& [key, parts] : rounds_) {
    const auto call = calls.find(std::get<CallKey>(key));
    if (call == calls.end()) continue;
    for (auto& [rank, part] : parts) put_part(call->second, std::get<std::uint32_t>(key), rank, part);
  }
}

void BoardRounds::put_part(TracedCall& call, std::uint32_t round, int rank, const Part& part) {
  std::vector<Span>& busy = call.busy[rank];
  if (part.post) busy.push_back(*part.post);
  busy.insert(busy.end(), part.takes.begin(), part.takes.end());
  for (const Part::Wait& one : part.waits) {
    std::optional<TracedMessage> last;
    for (const auto& [writer, other] : one.writers) {
      const TracedMessage reading{.from = writer,
                                  .to = rank,
                                  .bytes = other->bytes,
                                  .step = round,
                                  .given = other->post->end,
                                  .sent = other->post->end,
                                  .expected = one.wait.begin,
                                  .arrived = one.wait.end,
                                  .received = had(part, one)};
      call.readings.push_back(reading);
      if (!last || reading.given > last->given) last = reading;
    }
    if (last) call.messages.push_back(*last);
  }
}

}  // namespace tutti::cli
