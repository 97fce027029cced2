// How calls fail, and what this rank can say about them then.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/board/board_collectives.h"
#include "lib/collective/collectives.h"
#include "lib/failure/control_message.h"
#include "lib/group/group.h"

namespace tutti::detail {

using transport::Frame;
using transport::Link;

void Collectives::failed(Link& link, const Error& reason) noexcept { group_.link_failed(link, reason); }

void Collectives::notice_leftover(int peer, const Frame& frame) noexcept {
  if (transport::is_before(static_cast<std::uint32_t>(last_number()), frame.operation)) return;  // the peer is ahead
  const std::uint64_t number = history_.full_number(frame.operation);
  bool runs = false;
  running_.for_each([&](const Operation& operation) { runs = runs || operation.number() == number; });
  if (runs || !history_.remembers(number) || group_.is_in_doubt()) return;
  Frame next;  // nothing is known of the later call but that it is later
  next.operation = frame.operation + 1;
  group_.suspect(mismatch(peer, frame, next));
}

void Collectives::look_for_leftovers(const Operation& exchange) noexcept {
  const auto offsets = std::span{exchange.bound().offsets().output};
  for (std::size_t peer = 0; peer + 1 < offsets.size(); ++peer)
    if (offsets[peer] == offsets[peer + 1]) link_queues_.look_again(peer);
}

void Collectives::fail_all(const Error& reason) noexcept {
  link_queues_.clear();
  if (board_) board_->clear();
  running_.for_each([&](Operation& operation) { operation.fail(reason); });
}

void Collectives::close() noexcept {
  if (board_) board_->clear();
}

void Collectives::describe_call(std::uint64_t number, Status& status) const {
  history_.describe_call(number, status);
  running_.for_each([&](const Operation& operation) {
    if (operation.number() != number) return;
    describe_operation(operation, status);
    const Operation::Progress progress = operation.progress();
    status.steps = progress.all;
    status.steps_done = progress.done;
    status.in_rounds = progress.in_rounds;
    if (!operation.stream_part() || progress.done < progress.all) return;
    const StreamPart::Steps steps = operation.stream_part()->steps();
    status.on_stream = true;
    status.steps = steps.all;
    status.steps_done = steps.done;
  });
}

void Collectives::describe_operation(const Operation& operation, Status& status) const {
  status.wait = Status::Wait::collective;
  status.asynchronous = operation.asynchronous;
  status.doing = operation.call_text();
  for (int peer = 0; peer < group_.size(); ++peer)
    if (is_awaited(peer, operation)) group_.add_awaited(peer, group_.collective_channel(), status);
}

std::uint32_t Collectives::oldest_running(std::uint32_t next) const noexcept {
  const Operation* const oldest = running_.oldest();
  const std::uint32_t number = oldest ? static_cast<std::uint32_t>(oldest->number()) : next;
  return transport::is_before(number, next) ? number : next;
}

bool Collectives::may_ask(const Operation& operation, bool is_overdue) {
  return running_.oldest() == &operation || ask_limit_.pass(WaitEscalation::Clock::now(), is_overdue);
}

/// Describes the oldest operation that a caller waits for, or else the oldest.
bool Collectives::describe_wait(Status& status, Which /*which*/) const {
  const Operation* first = running_.oldest();
  running_.for_each([&](const Operation& operation) {
    if (first->asynchronous && !operation.asynchronous) first = &operation;
  });
  if (first) describe_operation(*first, status);
  return first != nullptr;
}

bool Collectives::is_awaited(int peer, const Operation& operation) const {
  if (operation.stream_part() && operation.progress().done == operation.progress().all)
    return operation.stream_part()->awaits(peer);
  return operation.board() ? board_->awaits(peer, operation) : link_queues_.is_awaited(peer, operation);
}

int Collectives::first_awaited(const Operation& operation) const {
  for (int peer = 0; peer < group_.size(); ++peer)
    if (is_awaited(peer, operation)) return peer;
  return -1;
}

void Collectives::notice_who_went_on(Operation& operation) noexcept {
  if (!board_ || operation.board() || group_.is_in_doubt()) return;
  for (int peer = 0; peer < group_.size(); ++peer) {
    const LinkQueues::Posted* const next = link_queues_.next_from(peer);
    if (!next || next->operation != &operation) continue;
    const auto later = board_->call_after(peer, operation.number());
    if (!later) continue;
    if (operation.suspect != peer) {  // its last message may just have come, so look once more
      operation.suspect = peer;
      return;
    }
    const std::size_t missing = next->bytes.size() - next->seen;
    std::string what = is_exchange_of_counts(operation.frame()) && next->seen == 0
                           ? history_.counts_that_differ(peer, operation.frame(), 0)
                           : "";
    if (what.empty())
      what =
          fmt::format("{} called {} while rank {} waits for {} more bytes from it in {}: the counts they gave differ",
                      group_.name_of(peer), describe(*later), group_.rank(), missing, describe(operation.frame()));
    return group_.suspect(Error{ErrorCode::mismatch, what, peer, operation.number()});
  }
}

std::string Collectives::awaited(const Operation& operation) const {
  std::string names;
  for (int peer = 0; peer < group_.size(); ++peer)
    if (is_awaited(peer, operation)) names += (names.empty() ? "" : ", ") + group_.name_of(peer);
  return names;
}

}  // namespace tutti::detail
