// How calls fail, and what can be said of them then.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/board/board_collectives.h"
#include "lib/collective/collectives.h"
#include "lib/failure/control_message.h"
#include "lib/group/group.h"

namespace tutti::detail {
namespace {

std::string more_than_expected(const transport::Frame& theirs) {
  return fmt::format(
      ", which has ended there without the {} bytes that it sent: give all ranks the same counts, tuning table and "
      "options",
      theirs.length);
}

/// Empty: none of the catalogue's own names, without parameters.
std::string name_of_algorithm(Collective collective, std::uint32_t hash) {
  for (const algorithms::Entry& entry : algorithms::catalogue(collective))
    if (algorithm_hash(entry.name) == hash) return std::string{entry.name};
  return {};
}

}  // namespace

using algorithms::Direction;
using transport::Frame;
using transport::Link;

void Collectives::failed(Link& link, const Error& reason) noexcept { group_.link_failed(link, reason); }

Error Collectives::mismatch(int peer, Frame theirs, Frame ours) const {
  // Calls that agree in all that is said of them may come after some that do not.
  if (board_ && describe(theirs) == describe(ours)) {
    for (const Frame& call : board_->calls_of(peer)) {
      const Recent& recent = recent_[full_number(call.operation) % remembered];
      const Frame made = transport::frame_of(recent.frame);
      if (made.operation != call.operation || made == call) continue;
      theirs = call;
      ours = made;
      break;
    }
  }
  // What comes late belongs to a call that has ended here.
  const Recent& earlier = recent_[full_number(theirs.operation) % remembered];
  const bool is_late = transport::is_before(theirs.operation, ours.operation) &&
                       static_cast<std::uint32_t>(earlier.number) == theirs.operation;
  if (is_late) ours = transport::frame_of(earlier.frame);
  const bool is_ahead = transport::is_before(ours.operation, theirs.operation);
  const bool says_same = describe(theirs) == describe(ours);
  std::string what;
  if (is_exchange_of_counts(ours) && (says_same || is_ahead))
    what =
        counts_that_differ(peer, ours, is_ahead ? 0 : theirs.length / size_of(static_cast<DataType>(ours.data_type)));
  if (what.empty()) {
    what = fmt::format("{} called {} while rank {} called {}", group_.name_of(peer), describe(theirs), group_.rank(),
                       describe(ours));
    if (says_same) what += is_late ? more_than_expected(theirs) : difference(theirs, ours);
  }
  return Error{ErrorCode::mismatch, what, peer, full_number(ours.operation)};
}

/// Of the algorithm of a call of this rank.
std::string Collectives::name_of(const Frame& ours) const {
  const Recent& recent = recent_[full_number(ours.operation) % remembered];
  return algorithm_text(recent.prepared->name, recent.in_window);
}

std::string Collectives::difference(const Frame& theirs, const Frame& ours) const {
  if (theirs.count != ours.count) {
    const RecentCounts::Counts* const own = counts_.of(full_number(ours.operation));
    return fmt::format(", with other counts{}: all ranks must give the same",
                       own ? fmt::format(" than rank {}, which gave {{{}}}", group_.rank(), list_of(own->sends)) : "");
  }
  if (theirs.algorithm != ours.algorithm) {
    const std::string their_name = name_of_algorithm(static_cast<Collective>(theirs.collective), theirs.algorithm);
    if (their_name.empty())
      return ", with another algorithm, or in memory of another allocate(): give all ranks the same tuning table, "
             "options and allocations";
    return fmt::format(", there with {} and here with {}: give all ranks the same tuning table and options", their_name,
                       name_of(ours));
  }
  if (theirs.history == ours.history && theirs.length != ours.length)
    return fmt::format(", but sent {} bytes where {} were expected", theirs.length, ours.length);
  const Frame before = transport::frame_of(recent_[(full_number(ours.operation) - 1) % remembered].frame);
  return fmt::format(", but their earlier calls differ{}",
                     before.operation + 1 == ours.operation && before.operation != 0
                         ? fmt::format(": the last one here was {} with {}", describe(before), name_of(before))
                         : "");
}

std::string Collectives::counts_that_differ(int peer, const Frame& ours, std::uint64_t sent) const {
  const RecentCounts::Counts* const own = counts_.of(full_number(ours.operation));
  const auto from = static_cast<std::size_t>(peer);
  if (!own || own->receives.size() <= from || own->receives[from] == sent) return "";
  return unequal_counts(describe(ours), {peer, group_.name_of(peer), sent},
                        {group_.rank(), group_.name_of(group_.rank()), own->receives[from]});
}

void Collectives::note_counts(const Operation& operation) {
  const bool is_exchange = is_exchange_of_counts(operation.frame());
  counts_.note(operation.number(), operation.offsets().input,
               is_exchange ? operation.offsets().output : std::span<const std::size_t>{});
}

std::uint64_t Collectives::elements(const Operation& operation) const {
  const Frame& frame = operation.frame();
  return is_exchange_of_counts(frame) ? operation.offsets().input.back() : elements_of(frame.count, frame.variable);
}

void Collectives::notice_leftover(int peer, const Frame& frame) noexcept {
  if (transport::is_before(static_cast<std::uint32_t>(started_), frame.operation)) return;  // it is ahead
  const std::uint64_t number = full_number(frame.operation);
  bool runs = false;
  running_.for_each([&](const Operation& operation) { runs = runs || operation.number() == number; });
  if (runs || recent_[number % remembered].number != number) return;
  Frame next;  // of which nothing is known, but that it is later
  next.operation = frame.operation + 1;
  group_.fail(mismatch(peer, frame, next));
}

void Collectives::look_for_leftovers(const Operation& exchange) noexcept {
  const auto offsets = std::span{exchange.offsets().output};
  for (std::size_t peer = 0; peer < in_.size(); ++peer)
    if (in_[peer].link && in_[peer].posted.empty() && offsets[peer] == offsets[peer + 1]) in_[peer].link->resume();
}

/// Of a call of late: frames have the lower half of it only.
std::uint64_t Collectives::full_number(std::uint32_t operation) const {
  return started_ - static_cast<std::uint32_t>(static_cast<std::uint32_t>(started_) - operation);
}

void Collectives::fail_all(const Error& reason) noexcept {
  out_.assign(out_.size(), {});
  in_.assign(in_.size(), {});
  if (board_) board_->clear();
  running_.for_each([&](Operation& operation) { operation.fail(reason); });
}

void Collectives::close() noexcept {
  if (board_) board_->clear();
}

void Collectives::describe_call(std::uint64_t number, Status& status) const {
  status.started = started_;
  status.finished = finished_;
  const Recent& recent = recent_[number % remembered];
  if (recent.number == number)
    status.call = fmt::format("{} with {}", describe(transport::frame_of(recent.frame)),
                              algorithm_text(recent.prepared->name, recent.in_window));
  if (const RecentCounts::Counts* const counts = counts_.of(number)) {
    status.sends = counts->sends;
    status.receives = counts->receives;
  }
  running_.for_each([&](const Operation& operation) {
    if (operation.number() != number) return;
    tell(operation, status);
    const Operation::Progress progress = operation.progress();
    status.steps = progress.all;
    status.steps_done = progress.done;
    status.in_rounds = progress.in_rounds;
  });
}

void Collectives::tell(const Operation& operation, Status& status) const {
  status.wait = Status::Wait::collective;
  status.asynchronous = operation.asynchronous;
  status.doing = operation.call_text();
  for (std::size_t peer = 0; peer < in_.size(); ++peer)
    if (is_awaited(peer, operation)) status.awaited.push_back(group_.global_rank(static_cast<int>(peer)));
}

std::uint32_t Collectives::oldest_running(std::uint32_t next) const noexcept {
  const Operation* const oldest = running_.oldest();
  const std::uint32_t number = oldest ? static_cast<std::uint32_t>(oldest->number()) : next;
  return transport::is_before(number, next) ? number : next;
}

bool Collectives::may_ask(const Operation& operation, bool is_overdue) {
  return running_.oldest() == &operation || ask_limit_.pass(WaitEscalation::Clock::now(), is_overdue);
}

/// The oldest one that a caller waits for, or else the oldest.
bool Collectives::describe_wait(Status& status, Which /*which*/) const {
  const Operation* first = running_.oldest();
  running_.for_each([&](const Operation& operation) {
    if (first->asynchronous && !operation.asynchronous) first = &operation;
  });
  if (first) tell(*first, status);
  return first != nullptr;
}

bool Collectives::is_awaited(std::size_t peer, const Operation& operation) const {
  if (operation.board()) return board_->awaits(static_cast<int>(peer), operation);
  const Fifo<Posted>& posted = in_[peer].posted;
  for (std::size_t i = 0; i < posted.size(); ++i)
    if (posted[i].operation == &operation) return true;
  if (out_[peer].unsent == 0) return false;
  return std::ranges::any_of(operation.plan().lanes, [peer](const algorithms::Lane& lane) {
    return lane.direction == Direction::out && std::cmp_equal(lane.peer, peer);
  });
}

int Collectives::first_awaited(const Operation& operation) const {
  for (std::size_t peer = 0; peer < in_.size(); ++peer)
    if (is_awaited(peer, operation)) return static_cast<int>(peer);
  return -1;
}

void Collectives::notice_who_went_on(Operation& operation) noexcept {
  if (!board_ || operation.board()) return;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    const int peer = static_cast<int>(i);
    const Fifo<Posted>& posted = in_[i].posted;
    if (posted.empty() || posted[0].operation != &operation) continue;
    const auto later = board_->call_after(peer, operation.number());
    if (!later) continue;
    if (operation.suspect != peer) {  // its last message may have come meanwhile
      operation.suspect = peer;
      return;
    }
    const std::size_t missing = posted[0].bytes.size() - posted[0].seen;
    std::string what = is_exchange_of_counts(operation.frame()) && posted[0].seen == 0
                           ? counts_that_differ(peer, operation.frame(), 0)
                           : "";
    if (what.empty())
      what =
          fmt::format("{} called {} while rank {} waits for {} more bytes from it in {}: the counts they gave differ",
                      group_.name_of(peer), describe(*later), group_.rank(), missing, describe(operation.frame()));
    return group_.fail(Error{ErrorCode::mismatch, what, peer, operation.number()});
  }
}

std::string Collectives::awaited(const Operation& operation) const {
  std::string names;
  for (std::size_t peer = 0; peer < in_.size(); ++peer)
    if (is_awaited(peer, operation)) names += (names.empty() ? "" : ", ") + group_.name_of(static_cast<int>(peer));
  return names;
}

}  // namespace tutti::detail
