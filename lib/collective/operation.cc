#include "lib/collective/operation.h"

#include <fmt/format.h>

#include <utility>

#include "lib/board/board_collectives.h"
#include "lib/collective/collectives.h"
#include "lib/collective/operation_failure.h"
#include "lib/group/context.h"
#include "lib/group/group.h"

namespace tutti::detail {
namespace {

using algorithms::Step;
using algorithms::Verb;

/// Why a call timed out whose input is not there yet.
std::string stream_is_late(std::chrono::milliseconds timeout) {
  return fmt::format(
      "timed out after {:.1f} s: on this rank the GPU has not finished the work that stands before the call in its "
      "stream",
      std::chrono::duration<double>(timeout).count());
}

}  // namespace

void Operation::prepare(Collectives& collectives, Group& group, const Planned& planned, const Request& request,
                        std::uint64_t number, std::shared_ptr<Pool<Operation>> pool, std::size_t board_capacity) {
  reset();
  engine_ = group.context().engine;
  collectives_ = &collectives;
  belongs_to(group);
  pool_ = std::move(pool);
  number_ = number;
  whole_ = group.within();
  taken_over_ = awaits_input_ = started_ = false;
  exchange_ = {};
  stream_part_.reset();
  timeout_ = request.timeout.count() > 0 ? request.timeout : group.context().timeout;

  frame_ = call_of(request, group.size(), planned.prepared.hash, planned.location.hash()).frame(number);
  bound_.bind(request, planned, {group.rank(), group.size(), group.context().kernels, board_capacity});
  Injector* const injector = group.context().injector.get();
  injector_ = injector ? injector->for_operation(target()) : nullptr;
  journal_.prepare();
}

void Operation::set_number(std::uint64_t number) noexcept {
  number_ = number;
  frame_.operation = static_cast<std::uint32_t>(number);
}

void Operation::take_over(std::uint64_t number, const Begun& begun) noexcept {
  set_number(number);
  set_history(begun.history);
  exchange_ = begun.exchange;
  journal_.take_over(begun.flight, begun.began);
  taken_over_ = true;
}

void Operation::start() noexcept {
  const auto now = Clock::now();
  begin_wait(now, timeout_);
  received_ = sent_ = asked_at_ = 0;
  suspect = -1;
  waiting_ = prepared().waits_for;
  remaining_ = parts();
  copies_.clear();
  if (awaits_input_)  // each step waits for that, too
    for (std::uint32_t& waits : waiting_) ++waits;
  else
    bound_.begin();
  if (prepared().copies_sends) copies_.resize(plan().steps.size());
  journal_.begin(now);
  if (!collectives_->start(*this)) return;  // it has failed, and may already serve another call
  started_ = true;
  if (stream_part_) stream_part_->begins(frame_);
  if (board()) return collectives_->start_on_board(*this);
  if (awaits_input_) return;
  if (remaining_ == 0) return succeed();
  for (const algorithms::StepId step : prepared().first) engine_->steps().ready(*this, step);
}

void Operation::input_is_there() noexcept {
  awaits_input_ = false;
  if (!started_) return;
  bound_.begin();
  if (board()) return;  // the board looks by itself
  if (remaining_ == 0) return succeed();
  for (algorithms::StepId step = 0; step < waiting_.size(); ++step)
    if (--waiting_[step] == 0) engine_->steps().ready(*this, step);
}

void Operation::stand_for(const Call& call, PartOffsets counts, std::shared_ptr<const StreamPart> stream) noexcept {
  frame_ = call.frame(number_);
  bound_.stand_for(std::move(counts));
  stream_part_ = std::move(stream);
}

void Operation::stream_has_passed() noexcept {
  stream_part_.reset();
  if (started_ && remaining_ == 0) succeed();
}

void Operation::lane_granted(std::uint32_t lane) noexcept {
  const algorithms::StepId step = plan().lanes[lane].first;
  if (--waiting_[step] == 0) engine_->steps().ready(*this, step);
}

void Operation::issued(std::uint32_t step) noexcept {
  const algorithms::StepId next = plan().next_on_lane[step];
  if (next == algorithms::no_step) {
    collectives_->link_queues().lane_done(*this, plan().lane_of[step]);
  } else if (--waiting_[next] == 0) {
    engine_->steps().ready(*this, next);
  }
}

void run_step(Operation& operation, std::uint32_t step, std::uint32_t piece) noexcept { operation.run(step, piece); }

void Operation::run(std::uint32_t id, std::uint32_t piece) noexcept {
  if (trace().is_wanted()) [[unlikely]]
    trace().step_begins(id);
  if (injector_ && piece == 0 && !is_allowed(id)) [[unlikely]]
    return;
  const Step& step = plan().steps[id];
  switch (step.verb) {
    case Verb::send: {
      std::span<const std::byte> bytes = bound_.payload(step);
      if (!copies_.empty()) [[unlikely]]
        bytes = copies_[id] = {bytes.begin(), bytes.end()};
      const bool sent = bytes.empty() || collectives_->link_queues().send(*this, id, step.peer, bytes);
      if (trace().is_wanted()) [[unlikely]]
        trace().step_sent(id, sent);
      sent_ += bytes.size();
      issued(id);
      if (is_copied(id)) release(id);
      if (sent) complete(id);
      return;
    }
    case Verb::recv:
    case Verb::recv_reduce: {
      const auto bytes = bound_.destination(step);
      const bool received = bytes.empty() || collectives_->link_queues().post(*this, id, step.peer, bytes);
      issued(id);
      if (received) complete(id);
      return;
    }
    case Verb::copy: {
      const BoundCall::Piece copied = bound_.copy_piece(id, piece);
      if (copied.is_last) return complete(id);
      trace().piece_copied(id, copied.bytes);
      return engine_->steps().goes_on(*this, id, piece + 1);
    }
    case Verb::reduce:
      bound_.reduce(step);
      return complete(id);
  }
}

void Operation::reduce_piece(std::uint32_t id, std::size_t offset, std::span<const std::byte> piece) noexcept {
  const std::int64_t begin = trace().is_wanted() && piece.size() > trace::tiny ? trace::ticks() : 0;
  bound_.reduce_piece(plan().steps[id], offset, piece);
  if (begin) [[unlikely]]
    trace().piece_reduced(id, begin, piece.size());
}

void Operation::release(std::uint32_t id) noexcept {
  for (const algorithms::StepId next : plan().successors(id))
    if (--waiting_[next] == 0) engine_->steps().ready(*this, next);
}

void Operation::complete(std::uint32_t id) noexcept {
  if (trace().is_wanted()) [[unlikely]]
    trace().step_ends(id);
  if (is_copied(id))
    copies_[id] = {};
  else
    release(id);
  --remaining_;
  journal_.progress(static_cast<std::uint32_t>(plan().steps.size()) - remaining_, sent_ + received_);
  if (remaining_ == 0) succeed();
}

Injector::Target Operation::target() const { return {group().index(), number_, plan()}; }

bool Operation::is_allowed(std::uint32_t step) noexcept {
  return injector_->allows(*this, target(), step, {group().context().log, [this] { group().cut_connections(); }});
}

bool Operation::play_faults(bool sends, std::span<const std::byte>& contribution) noexcept {
  if (!injector_) return true;
  for (algorithms::StepId id = 0; id < plan().steps.size(); ++id) {
    if ((plan().steps[id].verb == Verb::send) != sends) continue;
    if (!is_allowed(id)) return false;
    if (sends) contribution = injector_->tampered(target(), id, contribution);
  }
  return true;
}

void Operation::advance(int rounds) noexcept {
  remaining_ = parts() - static_cast<std::uint32_t>(rounds);
  journal_.progress(static_cast<std::uint32_t>(rounds), sent_ + received_);
}

void Operation::succeed() noexcept {
  if (stream_part_) return;
  bound_.finish(frame_.root);
  journal_.end(nullptr, sent_ + received_);
  collectives_->ended(*this);
  engine_->finished(*this);
}

void Operation::fail(const Error& reason) noexcept {
  engine_->steps().forget(*this);
  collectives_->ended(*this);
  const Error error = failure_of(*this, reason);
  journal_.end(&error, sent_ + received_);
  engine_->finished(*this, &error);
}

/// Asks the other ranks, or at the deadline settles the question without them.
void Operation::waits_long(WaitEscalation::Act act) noexcept {
  if (stream_part_) stream_part_->look_at_device();
  if (act == WaitEscalation::Act::give_up) return give_up();
  collectives_->notice_who_went_on(*this);
  if (group().failing()) return;
  const bool is_overdue = act == WaitEscalation::Act::demand;
  if (!collectives_->may_ask(*this, is_overdue)) return;
  const bool stalled = std::exchange(asked_at_, received_) == received_;
  group().context().failure_router->ask(
      group(), {.operation = number_, .call = part_of(whole_, call_text()), .stalled = stalled, .overdue = is_overdue});
}

/// Fails with what this rank knows, since the deadline has passed and no other rank knew more.
void Operation::give_up() noexcept {
  if (awaits_input_) return group().give_up(stream_is_late(timeout_), group().rank(), number_);
  const std::string awaited = collectives_->awaited(*this);
  group().give_up(fmt::format("timed out after {:.1f} s{}{}", std::chrono::duration<double>(timeout_).count(),
                              awaited.empty() ? "" : " waiting for ", awaited),
                  collectives_->first_awaited(*this), number_);
}

std::string Operation::describe() const {
  return fmt::format("{} on rank {} of {}", part_of(whole_, call_text()), group().rank(), group().size());
}

std::string Operation::call_text() const {
  return fmt::format("{} with {}", detail::describe(frame_), algorithm_text(prepared().name, is_in_window()));
}

void Operation::recycle() noexcept {
  // An object in the pool must not keep the pool alive.
  const auto pool = std::move(pool_);
  stream_part_.reset();
  bound_.release();
  engine_.reset();
  pool->give(std::unique_ptr<Operation>{this});
}

}  // namespace tutti::detail
