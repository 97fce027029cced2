#include "lib/operation.h"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

#include "lib/collectives.h"
#include "lib/context.h"
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

/// Elements per rank of the side that has one part per rank.
std::size_t part_count(const Request& request, std::size_t ranks) {
  switch (request.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return request.input.count;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return request.output.count;
    case Collective::all_to_all:
      return request.input.count / ranks;
    default:
      return request.input.count;
  }
}

/// Later calls quote the failure that made the communicator unusable.
std::string since(const Error& reason, std::uint64_t number) {
  if (reason.operation() == 0 || reason.operation() >= number) return "";
  return fmt::format("the communicator failed in operation #{}: ", reason.operation());
}

}  // namespace

void Operation::FreeBytes::operator()(std::byte* bytes) const noexcept { ::operator delete(bytes, alignment); }

void Operation::prepare(Collectives& collectives, Group& group, const Prepared& prepared, const Request& request,
                        std::uint64_t number, std::shared_ptr<Pool<Operation>> pool) {
  reset();
  engine_ = group.context().engine;
  collectives_ = &collectives;
  group_ = &group;
  prepared_ = &prepared;
  pool_ = std::move(pool);
  number_ = number;
  timeout_ = request.timeout.count() > 0 ? request.timeout : group.context().timeout;

  type_ = request.collective == Collective::broadcast ? request.output.type : request.input.type;
  const bool barrier = request.collective == Collective::barrier;
  op_ = barrier ? bor : request.op ? *request.op : sum;
  divide_ = op_.kind() == OpKind::avg;
  element_size_ = size_of(type_);
  kernels_ = &compute::kernels(*group.context().kernels, type_);
  combine_ = op_.kind() == OpKind::user ? nullptr : kernels_->combine[static_cast<int>(op_.kind())];

  std::uint64_t count = part_count(request, static_cast<std::size_t>(group.size()));
  variable_ = request.variable;
  if (request.variable) count = request.collective == Collective::all_to_all ? 0 : counts_hash(request.counts);
  const Call call{request.collective, type_, op_.kind(), request.root, count, prepared.hash};
  frame_ = call.frame(number);
  bind(request);
  const Log& log = group.context().log;
  trace_ = log.shows(Log::Level::trace, Log::Subsystem::coll) ? &log : nullptr;
  Injector* const injector = group.context().injector.get();
  injector_ = injector ? injector->for_operation(group.index(), number, plan()) : nullptr;
}

void Operation::set_number(std::uint64_t number) noexcept {
  number_ = number;
  frame_.operation = static_cast<std::uint32_t>(number);
}

void Operation::bind(const Request& request) {
  bind_sides(request);
  const std::size_t scratch_bytes = round_up(binding_.lay_out_scratch(plan()));
  const bool barrier = request.collective == Collective::barrier;
  const bool premultiplied = op_.kind() == OpKind::premul_sum && request.op;
  const bool exchanged_in_place =
      request.collective == Collective::all_to_all && request.input.data == request.output.data;
  const std::size_t input_bytes =
      barrier ? static_cast<std::size_t>(group_->size() * plan().shape.pipeline) : request.input.count * element_size_;
  const bool staged = barrier || premultiplied || exchanged_in_place;
  binding_.scratch = memory(scratch_bytes + (staged ? input_bytes : 0));
  if (!staged) return;

  // The plan reads a copy: contributions multiplied beforehand, parts that would be overwritten before they are
  // sent, or the tokens of a barrier.
  std::byte* copy = binding_.scratch + scratch_bytes;
  if (barrier) {
    std::memset(copy, 0, input_bytes);
    binding_.output.origin = copy;
  } else if (premultiplied) {
    kernels_->scale(copy, request.input.data, request.input.count, op_.factor());
  } else if (input_bytes > 0) {
    std::memcpy(copy, request.input.data, input_bytes);
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
      input.partition = output.partition = Partition::vector(request.input.count, ranks * pipeline, element_size_);
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
    input.partition = Partition::parts(prefix_[0], pipeline, element_size_);
    output.partition = Partition::parts(prefix_[1], pipeline, element_size_);
  } else {
    input.partition = output.partition =
        Partition::parts(part_count(request, static_cast<std::size_t>(ranks)), pipeline, element_size_);
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
  waiting_ = prepared_->waits_for;
  remaining_ = static_cast<std::uint32_t>(plan().steps.size());
  note_start(now);
  if (!collectives_->start(*this)) return;  // it failed, and may be in use for another call already
  if (remaining_ == 0) return succeed();
  for (const algorithms::StepId step : prepared_->first) engine_->ready(*this, step);
}

void Operation::note_start(Clock::time_point now) noexcept {
  if (trace_) [[unlikely]]
    trace_->trace(Log::Subsystem::coll, describe() + " begins");
  black_box::Box* const box = group_->context().black_box.get();
  if (!box) return;
  black_box::Call call{.group = group_->id(),
                       .operation = number_,
                       .count = frame_.count,
                       .started = std::chrono::nanoseconds{now.time_since_epoch()}.count(),
                       .root = frame_.root,
                       .steps = remaining_,
                       .collective = frame_.collective,
                       .type = frame_.data_type,
                       .op = frame_.op,
                       .variable = variable_};
  std::memcpy(call.algorithm.data(), prepared_->name.data(),
              std::min(prepared_->name.size(), call.algorithm.size() - 1));
  flight_ = box->begin(call);
}

void Operation::note_end(const Error* error) noexcept {
  flight_.land(error);
  if (!trace_) [[likely]]
    return;
  trace_->trace(Log::Subsystem::coll,
                error ? std::string{"fails: "} + error->what()
                      : fmt::format("{} ends: {} steps, {} bytes", describe(), plan().steps.size(), sent_ + received_));
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
  if (injector_ && !injector_->allows(*this, id)) [[unlikely]]
    return;
  const Step& step = plan().steps[id];
  switch (step.verb) {
    case Verb::send: {
      const auto bytes = binding_.bytes(step.left);
      const bool sent = bytes.empty() || collectives_->send(*this, id, step.peer, bytes);
      sent_ += bytes.size();
      issued(id);
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
      if (to.data() != from.data() && !to.empty()) std::memcpy(to.data(), from.data(), to.size());
      return complete(id);
    }
    case Verb::reduce: {
      const auto to = binding_.bytes(step.dst);
      combine(to.data(), binding_.bytes(step.left).data(), binding_.bytes(step.right).data(), to.size());
      return complete(id);
    }
  }
}

void Operation::reduce_piece(std::uint32_t id, std::size_t offset, std::span<const std::byte> piece) noexcept {
  const Step& step = plan().steps[id];
  combine(binding_.bytes(step.dst).data() + offset, binding_.bytes(step.left).data() + offset, piece.data(),
          piece.size());
}

void Operation::combine(std::byte* dst, const std::byte* left, const std::byte* right, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  if (op_.kind() != OpKind::user) return combine_(dst, left, right, bytes / element_size_);
  if (dst != left) std::memcpy(dst, left, bytes);
  (*op_.function())(dst, right, bytes / element_size_);
}

void Operation::complete(std::uint32_t id) noexcept {
  for (const algorithms::StepId next : plan().successors(id))
    if (--waiting_[next] == 0) engine_->ready(*this, next);
  --remaining_;
  flight_.progress(static_cast<std::uint32_t>(plan().steps.size()) - remaining_, sent_ + received_);
  if (remaining_ == 0) succeed();
}

void Operation::succeed() noexcept {
  const auto collective = static_cast<Collective>(frame_.collective);
  if (divide_ && (collective != Collective::reduce || group_->rank() == frame_.root)) {
    const int pipeline = plan().shape.pipeline;
    const bool own_part = collective == Collective::reduce_scatter;
    const int blocks = own_part ? pipeline : pipeline * group_->size();
    const auto result = binding_.bytes({algorithms::Buffer::output, own_part ? group_->rank() * pipeline : 0, blocks});
    kernels_->divide(result.data(), result.size() / element_size_, group_->size());
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
  details.algorithm = prepared_->name;
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
  return fmt::format("{} with {}", detail::describe(frame_), prepared_->name);
}

void Operation::recycle() noexcept {
  // The pool must not be kept alive by what lies in it.
  const auto pool = std::move(pool_);
  op_ = sum;
  engine_.reset();
  pool->give(std::unique_ptr<Operation>{this});
}

}  // namespace tutti::detail
