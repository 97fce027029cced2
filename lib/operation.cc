#include "lib/operation.h"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

#include "lib/collectives.h"
#include "lib/context.h"
#include "lib/flat.h"
#include "lib/group.h"

namespace tutti::detail {
namespace {

using algorithms::Step;
using algorithms::Verb;

constexpr std::align_val_t alignment{64};

/// Where block 0 would lie if `data` begins at byte `offset` of the whole. Not an address to use by itself.
std::byte* origin(const void* data, std::size_t offset) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(data) - offset);
}

std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

void to_prefix(std::span<const std::size_t> counts, std::vector<std::size_t>& prefix) {
  prefix.resize(counts.size() + 1);
  prefix[0] = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) prefix[i + 1] = prefix[i] + counts[i];
}

/// Later calls quote the failure that made the communicator unusable.
std::string since(const Error& reason, std::uint64_t number) {
  if (reason.operation() == 0 || reason.operation() >= number) return "";
  return fmt::format("the communicator failed in operation #{}: ", reason.operation());
}

}  // namespace

void Operation::FreeBytes::operator()(std::byte* bytes) const noexcept { ::operator delete(bytes, alignment); }

void Operation::prepare(Collectives& collectives, Group& group, const Planned& planned, const Request& request,
                        std::uint64_t number, std::shared_ptr<Pool<Operation>> pool, std::size_t flat_capacity) {
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
  arithmetic_ = Arithmetic{*group.context().kernels, type_, op};
  variable_ = request.variable;
  const bool in_place = request.collective != Collective::broadcast && request.input.data == request.output.data;
  streams_ = !in_place && !arithmetic_.finishes() && streams(request.output.count * arithmetic_.element_size());
  frame_ = call_of(request, group.size(), planned.hash()).frame(number);
  flat_.reset();
  if (flat_capacity > 0) {
    flat_ = FlatCall::of(request, group.rank(), group.size(), *group.context().kernels, flat_capacity, planned.place);
    bind_flat(request);
  } else if (bound_to_ == &request) {
    stage(request);
  } else {
    bind(request);
  }
  bound_to_ = request.persistent && flat_capacity == 0 ? &request : nullptr;
  const Log& log = group.context().log;
  trace_ = log.shows(Log::Level::trace, Log::Subsystem::coll) ? &log : nullptr;
  Injector* const injector = group.context().injector.get();
  injector_ = injector ? injector->for_operation(group.index(), number, plan()) : nullptr;
  recorder_ = group.context().recorder.get();
  if (recorder_ && !flat_) times_.assign(plan().steps.size(), {});
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

void Operation::bind_flat(const Request& request) {
  if (request.variable) {
    to_prefix(request.counts, prefix_[0]);
    flat_->give_parts(prefix_[0]);
  }
  if (!arithmetic_.premultiplies() || !request.op) return;
  flat_->input = memory(request.input.count * arithmetic_.element_size());
  arithmetic_.premultiply(flat_->input, request.input.data, request.input.count);
}

void Operation::bind(const Request& request) {
  bind_sides(request);
  scratch_bytes_ = round_up(binding_.lay_out_scratch(plan()));
  binding_.scratch = memory(scratch_bytes_ + staged_bytes(request));
  stage(request);
}

/// What the plan reads is a copy: contributions multiplied beforehand, parts that would be overwritten before they are
/// sent, or the tokens of a barrier. 0: it reads the input.
std::size_t Operation::staged_bytes(const Request& request) const {
  const bool barrier = request.collective == Collective::barrier;
  const bool premultiplied = arithmetic_.premultiplies() && request.op;
  const bool exchanged_in_place =
      request.collective == Collective::all_to_all && request.input.data == request.output.data;
  if (barrier) return static_cast<std::size_t>(group_->size()) * static_cast<std::size_t>(plan().shape.pipeline);
  return premultiplied || exchanged_in_place ? request.input.count * arithmetic_.element_size() : 0;
}

void Operation::stage(const Request& request) {
  const std::size_t bytes = staged_bytes(request);
  if (bytes == 0) return;
  std::byte* copy = binding_.scratch + scratch_bytes_;
  if (request.collective == Collective::barrier) {
    std::memset(copy, 0, bytes);
    binding_.output.origin = copy;
  } else if (arithmetic_.premultiplies()) {
    arithmetic_.premultiply(copy, request.input.data, request.input.count);
  } else {
    std::memcpy(copy, request.input.data, bytes);
  }
  binding_.input.origin = copy;
}

void Operation::bind_sides(const Request& request) {
  const int ranks = group_->size();
  const int pipeline = plan().shape.pipeline;
  const auto own_part = [&](const Partition& partition) { return partition.offset(group_->rank() * pipeline); };
  Binding::Side& input = binding_.input;
  Binding::Side& output = binding_.output;

  switch (request.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::broadcast:
      input.partition = output.partition =
          Partition::vector(request.input.count, ranks * pipeline, arithmetic_.element_size());
      input.origin = origin(request.input.data, 0);
      output.origin = origin(request.output.data, 0);
      return;
    default:
      break;
  }
  if (request.collective == Collective::barrier) {
    input.partition = output.partition = Partition::parts(static_cast<std::size_t>(pipeline), pipeline, 1);
  } else if (request.variable) {
    to_prefix(request.counts, prefix_[0]);
    to_prefix(request.recv_counts.empty() ? request.counts : request.recv_counts, prefix_[1]);
    input.partition = Partition::parts(prefix_[0], pipeline, arithmetic_.element_size());
    output.partition = Partition::parts(prefix_[1], pipeline, arithmetic_.element_size());
  } else {
    input.partition = output.partition =
        Partition::parts(part_count(request, static_cast<std::size_t>(ranks)), pipeline, arithmetic_.element_size());
  }
  const bool own_input = request.collective == Collective::all_gather || request.collective == Collective::gather;
  const bool own_output = request.collective == Collective::reduce_scatter || request.collective == Collective::scatter;
  input.origin = origin(request.input.data, own_input ? own_part(input.partition) : 0);
  output.origin = origin(request.output.data, own_output ? own_part(output.partition) : 0);
}

std::byte* Operation::memory(std::size_t bytes) {
  if (bytes > memory_size_) {
    memory_.reset();
    memory_size_ = 0;
    memory_.reset(static_cast<std::byte*>(::operator new(bytes, alignment)));
    memory_size_ = bytes;
  }
  return memory_.get();
}

void Operation::start() noexcept {
  const auto now = Clock::now();
  vigil_.begin(now, deadline_after(timeout_), group_->context().lookout->is_watched());
  deadline = vigil_.next();
  received_ = sent_ = asked_at_ = 0;
  suspect = -1;
  waiting_ = prepared_->waits_for;
  remaining_ = static_cast<std::uint32_t>(plan().steps.size());
  copies_.clear();
  if (prepared_->copies_sends) copies_.resize(plan().steps.size());
  note_start(now);
  if (!collectives_->start(*this)) return;  // it failed, and may be in use for another call already
  if (flat_) return collectives_->start_flat(*this);
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

void Operation::run(std::uint32_t id) noexcept {
  if (recorder_) [[unlikely]]
    times_[id].begin = trace::ticks();
  if (injector_ && !injector_->allows(*this, id)) [[unlikely]]
    return;
  const Step& step = plan().steps[id];
  switch (step.verb) {
    case Verb::send: {
      std::span<const std::byte> bytes = binding_.bytes(step.left);
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
      const compute::Copy copy = copy_of(id);
      if (to.data() == from.data() || to.empty()) return complete(id);
      if (copy) {
        copy(to.data(), from.data(), to.size());
      } else {
        std::memcpy(to.data(), from.data(), to.size());
      }
      return complete(id);
    }
    case Verb::reduce: {
      const auto to = binding_.bytes(step.dst);
      combine(to.data(), binding_.bytes(step.left).data(), binding_.bytes(step.right).data(), to.size());
      return complete(id);
    }
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
  combine(binding_.bytes(step.dst).data() + offset, binding_.bytes(step.left).data() + offset, piece.data(),
          piece.size());
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

bool Operation::play_faults(bool sends, std::span<const std::byte>& contribution) noexcept {
  if (!injector_) return true;
  for (algorithms::StepId id = 0; id < plan().steps.size(); ++id) {
    if ((plan().steps[id].verb == Verb::send) != sends) continue;
    if (!injector_->allows(*this, id)) return false;
    if (sends) contribution = injector_->tampered(*this, id, contribution);
  }
  return true;
}

void Operation::advance(int part, int whole) noexcept {
  const auto steps = static_cast<std::uint32_t>(plan().steps.size());
  const auto done = static_cast<std::uint32_t>(std::uint64_t{steps} * static_cast<std::uint64_t>(part) /
                                               static_cast<std::uint64_t>(whole));
  remaining_ = steps - done;
  flight_.progress(done, 0);
}

void Operation::complete_all() noexcept {
  advance(1, 1);
  succeed();
}

void Operation::succeed() noexcept {
  const auto collective = static_cast<Collective>(frame_.collective);
  if (!flat_ && is_reduction(collective) && (collective != Collective::reduce || group_->rank() == frame_.root)) {
    const int pipeline = plan().shape.pipeline;
    const bool own_part = collective == Collective::reduce_scatter;
    const int blocks = own_part ? pipeline : pipeline * group_->size();
    const auto result = binding_.bytes({algorithms::Buffer::output, own_part ? group_->rank() * pipeline : 0, blocks});
    arithmetic_.finish(result.data(), result.size(), group_->size());
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
  details.algorithm = algorithm_text(prepared_->name, is_in_window());
  details.data_type = name_of(type_);
  details.count = frame_.count;
  details.steps = plan().steps.size();
  details.steps_done = details.steps - remaining_;
  details.bytes_received = received_;
  Error error{reason.code(),
              fmt::format("{}: {}{}. {} of {} steps were done here, {} bytes received", describe(),
                          since(reason, number_), reason.what(), details.steps_done, details.steps, received_),
              reason.rank(), number_};
  error.set_details(std::move(details));
  note_end(&error);
  engine_->finished(*this, &error);
}

/// Nobody waits for ever, nor without asking: what is not certain before the deadline is decided then.
void Operation::expire() noexcept {
  if (group_->failing()) return;
  const Vigil::Act act = vigil_.act(Clock::now());
  deadline = vigil_.next();
  if (act == Vigil::Act::give_up) return give_up();
  collectives_->notice_who_went_on(*this);
  if (group_->failing()) return;
  const bool stalled = std::exchange(asked_at_, received_) == received_;
  group_->context().lookout->ask(*group_, number_, call_text(), stalled, act == Vigil::Act::demand);
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
  flat_.reset();
  engine_.reset();
  pool->give(std::unique_ptr<Operation>{this});
}

}  // namespace tutti::detail
