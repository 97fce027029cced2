#include "lib/collective/call_history.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/board/board_collectives.h"
#include "lib/collective/call.h"
#include "lib/failure/control_message.h"
#include "lib/failure/diagnosis.h"
#include "lib/group/group.h"

namespace tutti::detail {
namespace {

std::string more_than_expected(int rank, int peer, const transport::Frame& theirs) {
  return fmt::format(
      ", which has ended on rank {} without the {} bytes that rank {} sent: give all ranks the same counts, tuning "
      "table and options",
      rank, theirs.length, peer);
}

/// The algorithm with that hash, if it is in the catalogue with a radix that suits `ranks` and a usual pipeline; else
/// empty.
std::string name_of_algorithm(Collective collective, std::uint32_t hash, int ranks) {
  constexpr int deepest_pipeline = 256;
  for (const algorithms::Entry& entry : algorithms::catalogue(collective)) {
    for (int radix = 2; radix <= (entry.has_radix ? std::max(ranks, 2) : 2); ++radix) {
      for (int pipeline = 1; pipeline <= (entry.has_pipeline ? deepest_pipeline : 1); ++pipeline) {
        const std::string name = algorithms::to_string({.entry = &entry, .radix = radix, .pipeline = pipeline});
        if (algorithm_hash(name) == hash) return name;
      }
    }
  }
  return {};
}

/// Whether `other` is the hash of the same algorithm on the other kind of memory.
bool differ_in_memory(std::string_view own, std::uint32_t other) {
  if (!own.ends_with(on_streams)) {
    const std::string name{own};
    return other == algorithm_hash(name + std::string{on_streams}) ||
           other == algorithm_hash(name + std::string{as_tasks} + std::string{on_streams});
  }
  own.remove_suffix(on_streams.size());
  if (own.ends_with(as_tasks)) own.remove_suffix(as_tasks.size());
  return other == algorithm_hash(own);
}

}  // namespace

using transport::Frame;

void CallHistory::note_counts(const Frame& call, std::uint64_t number, const PartOffsets& offsets) {
  const bool is_exchange = is_exchange_of_counts(call);
  counts_.note(number, offsets.input, is_exchange ? offsets.output : std::span<const std::size_t>{});
}

Error CallHistory::mismatch(int peer, Frame theirs, Frame ours, const BoardCollectives* board) const {
  // The two calls may agree in all that describe() says because earlier ones differ: look for the first that does.
  if (board && describe(theirs) == describe(ours)) {
    for (const Frame& posted : board->calls_of(peer)) {
      const Frame made = transport::frame_of(call(full_number(posted.operation)));
      if (made.operation != posted.operation || made == posted) continue;
      theirs = posted;
      ours = made;
      break;
    }
  }
  // A late message belongs to a call that has ended here.
  const Entry& earlier = entry(full_number(theirs.operation));
  const bool is_late = transport::is_before(theirs.operation, ours.operation) &&
                       static_cast<std::uint32_t>(earlier.number) == theirs.operation;
  if (is_late) ours = transport::frame_of(earlier.call);
  const bool is_ahead = transport::is_before(ours.operation, theirs.operation);
  const bool says_same = describe(theirs) == describe(ours);
  std::string what;
  if (is_exchange_of_counts(ours) && (says_same || is_ahead))
    what =
        counts_that_differ(peer, ours, is_ahead ? 0 : theirs.length / size_of(static_cast<DataType>(ours.data_type)));
  if (what.empty()) {
    what = fmt::format("{} called {} while rank {} called {}", group_.name_of(peer), describe(theirs), group_.rank(),
                       part_of(whole_of(ours), describe(ours)));
    if (says_same) what += is_late ? more_than_expected(group_.rank(), peer, theirs) : difference(theirs, ours);
  }
  return Error{ErrorCode::mismatch, what, peer, full_number(ours.operation)};
}

const char* CallHistory::whole_of(const Frame& ours) const {
  const std::uint64_t number = full_number(ours.operation);
  return remembers(number) ? entry(number).whole : nullptr;
}

std::string CallHistory::algorithm_of(const Frame& ours) const {
  const Entry& own = entry(full_number(ours.operation));
  return algorithm_text(own.prepared->name, own.in_window);
}

std::string CallHistory::difference(const Frame& theirs, const Frame& ours) const {
  if (theirs.count != ours.count) {
    const RecentCounts::Counts* const own = counts_.of(full_number(ours.operation));
    return fmt::format(", with other counts{}: all ranks must give the same",
                       own ? fmt::format(" than rank {}, which gave {{{}}}", group_.rank(), list_of(own->sends)) : "");
  }
  const bool in_one_window = (theirs.window != 0) != (ours.window != 0);
  if (theirs.algorithm != ours.algorithm) {
    const std::string own_name = algorithm_of(ours);
    if (differ_in_memory(own_name, theirs.algorithm)) return std::string{other_memory};
    const std::string their_name =
        name_of_algorithm(static_cast<Collective>(theirs.collective), theirs.algorithm, group_.size());
    if (own_name.find(as_tasks) != own_name.npos)
      return fmt::format(", with another algorithm, or with buffers elsewhere{}", other_tasks);
    return fmt::format(", there with {} and here with {}{}",
                       their_name.empty() ? "another algorithm" : algorithm_text(their_name, theirs.window != 0),
                       own_name, in_one_window ? only_one_allocated : other_algorithm);
  }
  if (in_one_window)
    return fmt::format(", only {}{}{}", theirs.window != 0 ? "there" : "here", in_allocated_memory, only_one_allocated);
  if (theirs.window != ours.window) return ", in memory of another allocate(): give all ranks the same allocations";
  if (theirs.history == ours.history && theirs.length != ours.length)
    return fmt::format(", but sent {} bytes where {} were expected", theirs.length, ours.length);
  const Frame before = transport::frame_of(call(full_number(ours.operation) - 1));
  return fmt::format(", but their earlier calls differ{}",
                     before.operation + 1 == ours.operation && before.operation != 0
                         ? fmt::format(": the last one here was {} with {}", describe(before), algorithm_of(before))
                         : "");
}

std::string CallHistory::counts_that_differ(int peer, const Frame& ours, std::uint64_t sent) const {
  const RecentCounts::Counts* const own = counts_.of(full_number(ours.operation));
  const auto from = static_cast<std::size_t>(peer);
  if (!own || own->receives.size() <= from || own->receives[from] == sent) return "";
  return unequal_counts(describe(ours), {peer, group_.name_of(peer), sent},
                        {group_.rank(), group_.name_of(group_.rank()), own->receives[from]});
}

void CallHistory::describe_call(std::uint64_t number, Status& status) const {
  status.started = started_;
  status.finished = finished_;
  if (remembers(number)) {
    const Entry& own = entry(number);
    status.call = part_of(own.whole, fmt::format("{} with {}", describe(transport::frame_of(own.call)),
                                                 algorithm_text(own.prepared->name, own.in_window)));
  }
  if (const RecentCounts::Counts* const counts = counts_.of(number)) {
    status.sends = counts->sends;
    status.receives = counts->receives;
  }
}

}  // namespace tutti::detail
