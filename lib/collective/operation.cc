#include "lib/collective/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/internals.h"
#include "lib/board/board_collectives.h"
#include "lib/collective/collectives.h"
#include "lib/group/context.h"
#include "lib/group/group.h"

namespace tutti::detail {
namespace {

using algorithms::Step;
using algorithms::Verb;

/// More follows.
std::string_view without_stop(std::string_view sentence) {
  if (sentence.ends_with('.')) sentence.remove_suffix(1);
  return sentence;
}

std::string how_far(const Operation::Progress& progress) {
  if (!progress.in_rounds) return fmt::format("{} of {} steps were done here", progress.done, progress.all);
  return fmt::format("Round {} of {} was under way here", std::min(progress.done + 1, progress.all), progress.all);
}

/// Later calls quote the failure that made the communicator unusable.
std::string since(const Error& reason, std::uint64_t number) {
  if (reason.operation() == 0 || reason.operation() >= number) return "";
  return fmt::format("the communicator failed in operation #{}: ", reason.operation());
}

}  // namespace

void Operation::prepare(Collectives& collectives, Group& group, const Planned& planned, const Request& request,
                        std::uint64_t number, std::shared_ptr<Pool<Operation>> pool, std::size_t board_capacity) {
  reset();
  engine_ = group.context().engine;
  collectives_ = &collectives;
  group_ = &group;
  prepared_ = &planned.prepared;
  pool_ = std::move(pool);
  number_ = number;
  taken_over_ = false;
  timeout_ = request.timeout.count() > 0 ? request.timeout : group.context().timeout;

  type_ = type_of(request);
  const Op& op = request.collective == Collective::barrier ? bor : request.op ? *request.op : sum;
  arithmetic_ = Arithmetic{*group.context().kernels, type_, op, group.size()};
  variable_ = request.variable;
  const bool in_place =
      traits_of(request.collective).in_place != InPlace::always && request.input.data == request.output.data;
  streams_ = !in_place && !arithmetic_.averages() && streams(request.output.count * arithmetic_.element_size());
  frame_ = call_of(request, group.size(), planned.hash()).frame(number);
  board_.reset();
  if (board_capacity > 0) {
    bind_to_board(request, planned, board_capacity);
  } else if (bound_to_ == &request) {
    stage(request);
  } else {
    bind(request);
  }
  bound_to_ = request.persistent && board_capacity == 0 ? &request : nullptr;
  const Log& log = group.context().log;
  trace_ = log.shows(Log::Level::trace, Log::Subsystem::coll) ? &log : nullptr;
  Injector* const injector = group.context().injector.get();
  injector_ = injector ? injector->for_operation(target()) : nullptr;
  recorder_ = group.context().recorder.get();
  if (recorder_ && !board_) times_.assign(plan().steps.size(), {});
}

void Operation::set_number(std::uint64_t number) noexcept {
  number_ = number;
  frame_.operation = static_cast<std::uint32_t>(number);
}

void Operation::take_over(std::uint64_t number, black_box::Flight flight, std::int64_t begun) noexcept {
  set_number(number);
  flight_ = flight;
  begun_ = begun;
  taken_over_ = true;
}

void Operation::start() noexcept {
  const auto now = Clock::now();
  escalation_.begin(now, deadline_after(timeout_), group_->context().failure_router->is_watched());
  engine_->look_at(*this, escalation_.next());
  received_ = sent_ = asked_at_ = 0;
  suspect = -1;
  waiting_ = prepared_->waits_for;
  remaining_ = parts();
  copies_.clear();
  if (arithmetic_.averages() && !board_)
    contributed_.assign(static_cast<std::size_t>(group_->size()) * static_cast<std::size_t>(plan().shape.pipeline),
                        false);
  if (prepared_->copies_sends) copies_.resize(plan().steps.size());
  note_start(now);
  if (!collectives_->start(*this)) return;  // it failed, and may be in use for another call already
  if (board_) return collectives_->start_on_board(*this);
  if (remaining_ == 0) return succeed();
  for (const algorithms::StepId step : prepared_->first) engine_->ready(*this, step);
}

void Operation::lane_granted(std::uint32_t lane) noexcept {
  const algorithms::StepId step = plan().lanes[lane].first;
  if (--waiting_[step] == 0) engine_->ready(*this, step);
}

void Operation::issued(std::uint32_t step) noexcept {
  const algorithms::StepId next = plan().next_on_lane[step];
  if (next == algorithms::no_step) {
    collectives_->lane_done(*this, plan().lane_of[step]);
  } else if (--waiting_[next] == 0) {
    engine_->ready(*this, next);
  }
}

void run_step(Operation& operation, std::uint32_t step) noexcept { operation.run(step); }

void Operation::run(std::uint32_t id) noexcept {
  if (recorder_) [[unlikely]]
    times_[id].begin = trace::ticks();
  if (injector_ && !is_allowed(id)) [[unlikely]]
    return;
  const Step& step = plan().steps[id];
  switch (step.verb) {
    case Verb::send: {
      std::span<const std::byte> bytes = payload(step.left);
      if (!copies_.empty()) [[unlikely]]
        bytes = copies_[id] = {bytes.begin(), bytes.end()};
      const bool sent = bytes.empty() || collectives_->send(*this, id, step.peer, bytes);
      if (recorder_) [[unlikely]]
        times_[id].at_once = sent;
      sent_ += bytes.size();
      issued(id);
      if (is_copied(id)) release(id);
      if (sent) complete(id);
      return;
    }
    case Verb::recv:
    case Verb::recv_reduce: {
      const auto bytes = binding_.bytes(step.dst);
      if (!bytes.empty()) collectives_->post(*this, id, step.peer, bytes);
      issued(id);
      if (bytes.empty()) complete(id);
      return;
    }
    case Verb::copy: {
      const auto to = binding_.bytes(step.dst);
      const auto from = binding_.bytes(step.left);
      if (is_contributed(step.left)) {
        begin_contribution(to.data(), from);
        return complete(id);
      }
      const compute::Copy copy = copy_of(id);
      if (to.data() == from.data() || to.empty()) return complete(id);
      if (copy) {
        copy(to.data(), from.data(), to.size());
      } else {
        std::memcpy(to.data(), from.data(), to.size());
      }
      return complete(id);
    }
    case Verb::reduce:
      reduce(step);
      return complete(id);
  }
}

/// Past the caches, if no other step reads it there.
compute::Copy Operation::copy_of(std::uint32_t id) const noexcept {
  const bool ends_there = plan().steps[id].dst.buffer == algorithms::Buffer::output && plan().successors(id).empty();
  return streams_ && ends_there ? group_->context().kernels->copy_streaming : nullptr;
}

void Operation::reduce_piece(std::uint32_t id, std::size_t offset, std::span<const std::byte> piece) noexcept {
  const Step& step = plan().steps[id];
  const std::int64_t begin = recorder_ && piece.size() > trace::tiny ? trace::ticks() : 0;
  combine_piece(step, offset, piece);
  if (begin) [[unlikely]]
    record_reduction(id, begin, piece.size());
}

void Operation::release(std::uint32_t id) noexcept {
  for (const algorithms::StepId next : plan().successors(id))
    if (--waiting_[next] == 0) engine_->ready(*this, next);
}

void Operation::complete(std::uint32_t id) noexcept {
  if (recorder_) [[unlikely]]
    record_step(id);
  if (is_copied(id))
    copies_[id] = {};
  else
    release(id);
  --remaining_;
  flight_.progress(static_cast<std::uint32_t>(plan().steps.size()) - remaining_, sent_ + received_);
  if (remaining_ == 0) succeed();
}

Injector::Target Operation::target() const { return {group_->index(), number_, plan()}; }

bool Operation::is_allowed(std::uint32_t step) noexcept {
  return injector_->allows(*this, target(), step, {group_->context().log, [this] { group_->cut_connections(); }});
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
  flight_.progress(static_cast<std::uint32_t>(rounds), sent_ + received_);
}

void Operation::succeed() noexcept {
  const CollectiveTraits& traits = traits_of(static_cast<Collective>(frame_.collective));
  if (!board_ && arithmetic_.averages() && traits.output.is_at(group_->rank(), frame_.root)) {
    const int pipeline = plan().shape.pipeline;
    const int first = traits.scatters() ? group_->rank() * pipeline : 0;
    const int blocks = traits.scatters() ? pipeline : pipeline * group_->size();
    finish_average(binding_.bytes({algorithms::Buffer::output, first, blocks}));
  }
  note_end(nullptr);
  collectives_->ended(*this);
  engine_->finished(*this);
}

void Operation::fail(const Error& reason) noexcept {
  engine_->forget(*this);
  collectives_->ended(*this);
  FailureDetails details = reason.details();
  details.collective = name_of(static_cast<Collective>(frame_.collective));
  if (variable_) details.collective += "_v";
  details.algorithm = algorithm_text(prepared_->name, is_in_window());
  details.data_type = name_of(type_);
  details.count = collectives_->elements(*this);
  details.steps = progress().all;
  details.steps_done = progress().done;
  details.bytes_received = received_;
  Error error{reason.code(),
              fmt::format("{}: {}{}. {}, {} bytes received", describe(), since(reason, number_),
                          without_stop(reason.what()), how_far(progress()), received_),
              reason.rank(), number_};
  Internals::set_details(error, std::move(details));
  note_end(&error);
  engine_->finished(*this, &error);
}

/// Nobody waits for ever, nor without asking: what is not certain before the deadline is decided then.
void Operation::expire() noexcept {
  if (group_->failing()) return;
  const WaitEscalation::Act act = escalation_.act(Clock::now());
  engine_->look_at(*this, escalation_.next());
  if (act == WaitEscalation::Act::give_up) return give_up();
  collectives_->notice_who_went_on(*this);
  if (group_->failing()) return;
  const bool is_overdue = act == WaitEscalation::Act::demand;
  if (!collectives_->may_ask(*this, is_overdue)) return;
  const bool stalled = std::exchange(asked_at_, received_) == received_;
  group_->context().failure_router->ask(
      *group_, {.operation = number_, .call = call_text(), .stalled = stalled, .overdue = is_overdue});
}

void Operation::departed(std::span<const int> ranks) noexcept {
  if (!group_->has_any_of(ranks)) return;
  escalation_.hasten(Clock::now());
  engine_->look_at(*this, escalation_.next());
}

/// The deadline has passed, and nobody could say more.
void Operation::give_up() noexcept {
  const std::string awaited = collectives_->awaited(*this);
  group_->give_up(fmt::format("timed out after {:.1f} s{}{}", std::chrono::duration<double>(timeout_).count(),
                              awaited.empty() ? "" : " waiting for ", awaited),
                  collectives_->first_awaited(*this), number_);
}

std::string Operation::describe() const {
  return fmt::format("{} on rank {} of {}", call_text(), group_->rank(), group_->size());
}

std::string Operation::call_text() const {
  return fmt::format("{} with {}", detail::describe(frame_), algorithm_text(prepared_->name, is_in_window()));
}

void Operation::recycle() noexcept {
  // The pool must not be kept alive by what lies in it.
  const auto pool = std::move(pool_);
  arithmetic_ = {};
  board_.reset();
  engine_.reset();
  pool->give(std::unique_ptr<Operation>{this});
}

}  // namespace tutti::detail
