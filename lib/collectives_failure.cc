// How calls fail, and what can be said of them then.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/collectives.h"
#include "lib/flat.h"
#include "lib/group.h"
#include "lib/watch/letter.h"

namespace tutti::detail {

using algorithms::Direction;
using transport::Frame;
using transport::Link;

void Collectives::failed(Link& link, const Error& reason) noexcept { group_.link_failed(link, reason); }

Error Collectives::mismatch(int peer, Frame theirs, Frame ours) const {
  // Calls that agree in all that is said of them may come after some that do not.
  if (flat_ && describe(theirs) == describe(ours)) {
    for (const Frame& call : flat_->calls_of(peer)) {
      const Recent& recent = recent_[full_number(call.operation) % remembered];
      const Frame made = transport::frame_of(recent.frame);
      if (made.operation != call.operation || made == call) continue;
      theirs = call;
      ours = made;
      break;
    }
  }
  std::string what = fmt::format("{} called {} while rank {} called {}", group_.name_of(peer), describe(theirs),
                                 group_.rank(), describe(ours));
  if (describe(theirs) == describe(ours))
    what += theirs.algorithm != ours.algorithm
                ? ", with another algorithm, or in memory of another allocate(): give all ranks the same tuning "
                  "table, options and allocations"
                : fmt::format(", but sent {} bytes where {} were expected", theirs.length, ours.length);
  return Error{ErrorCode::mismatch, what, peer, full_number(ours.operation)};
}

/// Of a call of late: frames have the lower half of it only.
std::uint64_t Collectives::full_number(std::uint32_t operation) const {
  return started_ - static_cast<std::uint32_t>(static_cast<std::uint32_t>(started_) - operation);
}

void Collectives::fail_all(const Error& reason) noexcept {
  out_.assign(out_.size(), {});
  in_.assign(in_.size(), {});
  if (flat_) flat_->clear();
  for (std::size_t slot = 0; slot < running_.size(); ++slot)
    if (running_[slot]) running_[slot]->fail(reason);
}

void Collectives::close() noexcept {
  if (flat_) flat_->clear();
}

void Collectives::testify(std::uint64_t number, Status& status) const {
  status.started = started_;
  status.finished = finished_;
  const Recent& recent = recent_[number % remembered];
  if (recent.number == number)
    status.call = fmt::format("{} with {}", describe(transport::frame_of(recent.frame)),
                              algorithm_text(recent.prepared->name, recent.in_window));
  for (const Operation* operation : running_) {
    if (!operation || operation->number() != number) continue;
    status.doing = operation->call_text();
    status.steps = static_cast<std::uint32_t>(operation->plan().steps.size());
    status.steps_done = status.steps - operation->remaining();
    for (std::size_t peer = 0; peer < in_.size(); ++peer)
      if (is_awaited(peer, *operation)) status.awaited.push_back(group_.global_rank(static_cast<int>(peer)));
  }
}

std::uint32_t Collectives::oldest_running(std::uint32_t next) const noexcept {
  if (!busy()) return next;
  std::uint32_t oldest = next;
  for (const Operation* operation : running_) {
    const std::uint32_t number = operation ? static_cast<std::uint32_t>(operation->number()) : next;
    if (transport::is_before(number, oldest)) oldest = number;
  }
  return oldest;
}

std::string Collectives::busy_with() const {
  const Operation* oldest = nullptr;
  for (const Operation* operation : running_)
    if (operation && (!oldest || operation->number() < oldest->number())) oldest = operation;
  return oldest ? oldest->call_text() : "";
}

bool Collectives::is_awaited(std::size_t peer, const Operation& operation) const {
  if (operation.flat()) return flat_->awaits(static_cast<int>(peer), operation);
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
  if (!flat_ || operation.flat()) return;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    const int peer = static_cast<int>(i);
    const Fifo<Posted>& posted = in_[i].posted;
    if (posted.empty() || posted[0].operation != &operation) continue;
    const auto later = flat_->call_after(peer, operation.number());
    if (!later) continue;
    if (operation.suspect != peer) {  // its last message may have come meanwhile
      operation.suspect = peer;
      return;
    }
    return group_.fail(Error{
        ErrorCode::mismatch,
        fmt::format("{} called {} while rank {} waits for {} more bytes from it in {}: the counts they gave differ",
                    group_.name_of(peer), describe(*later), group_.rank(), posted[0].bytes.size() - posted[0].seen,
                    describe(operation.frame())),
        peer, operation.number()});
  }
}

std::string Collectives::awaited(const Operation& operation) const {
  std::string names;
  for (std::size_t peer = 0; peer < in_.size(); ++peer)
    if (is_awaited(peer, operation)) names += (names.empty() ? "" : ", ") + group_.name_of(static_cast<int>(peer));
  return names;
}

}  // namespace tutti::detail
