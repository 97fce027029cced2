#include "lib/api/stream_calls.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "algorithms/check.h"
#include "lib/api/communicator_state.h"
#include "lib/api/device_calls.h"
#include "lib/api/stream_capture.h"
#include "lib/base/fork_mark.h"
#include "lib/base/gpu/context.h"
#include "lib/base/index.h"
#include "lib/base/internals.h"
#include "lib/collective/call_buffers.h"
#include "lib/collective/stream_binding.h"
#include "lib/engine/driven_by_helper.h"
#include "lib/gpu/device_kernels.h"
#include "lib/group/context.h"

namespace tutti::detail {

namespace {

/// Where all hosts have as many neighbouring ranks, plans keep to the host what they can. Elsewhere the network
/// decides.
Planner planner_for_streams(const Planner& planner, bool is_within_host, int ranks_on_each_host,
                            const Runners& runners) {
  Planner::Settings settings = planner.settings();
  settings.transport = is_within_host ? runners.transport() : ranks_on_each_host > 1 ? "cuda_hosts" : "tcp";
  settings.ranks_on_each_host = ranks_on_each_host;
  settings.oversubscribed = settings.boards = false;
  settings.domains.clear();
  return Planner{std::move(settings)};
}

/// The plans of all ranks of which `prepared` has one.
std::vector<algorithms::Plan> plans_of(Collective collective, const Prepared& prepared,
                                       const algorithms::GivenPlans* given) {
  if (given && given->collective == collective && given->name == prepared.name) return given->plans;
  algorithms::Choice choice = algorithms::find(collective, prepared.name);
  choice.pipeline = prepared.plan.shape.pipeline;
  choice.radix = prepared.plan.shape.radix;
  return algorithms::plans_of_all(choice, prepared.plan.shape);
}

DeviceArithmetic arithmetic_of(const Request& request, const Arithmetic& arithmetic, const DeviceKernels* kernels,
                               int multiprocessors) {
  const OpKind op = request.op ? request.op->kind() : OpKind::sum;
  return {kernels,
          type_of(request),
          op,
          arithmetic.element_size(),
          arithmetic.sum_size(),
          arithmetic.factor(),
          arithmetic.divisor(),
          multiprocessors};
}

}  // namespace

StreamCalls::StreamCalls(Group& group, Collectives& collectives, std::unique_ptr<transport::StreamLinks> links,
                         Runners runners, const Hosts& hosts, const DeviceKernels* kernels, cuda::Context context)
    : group_(group),
      collectives_(collectives),
      kernels_(kernels),
      context_(context),
      device_(cuda::device_of(context)),
      multiprocessors_(cuda::facts_of(device_).multiprocessors),
      links_(std::move(links)),
      flight_(std::make_shared<StreamFlight>(*links_)),
      planner_(planner_for_streams(collectives.planner(), !links_->has_staged(), hosts.ranks_on_each, runners)),
      tasks_(group, planner_, std::move(runners)),
      counters_(group.size()),
      graphs_(std::make_unique<StreamCapture>(*this)),
      watch_([this](const std::string& why) { fail_with_device(why); }) {
  if (trace::Recorder* const recorder = group.context().recorder.get())
    trace_ = std::make_unique<StreamTrace>(
        StreamTrace::Owner{group.context().engine, recorder, group.trace_index(), group.members()});
  enter(context_);
  // The last step, since the engine knows them until the destructor runs.
  if (links_->has_staged()) staged_ = StagedLinks::open(group, collectives, *links_, hosts.channel);
}

void StreamCalls::leave() noexcept {
  if (staged_) staged_->leave();
  graphs_->close();
}

/// The engine's work for this communicator has ended.
StreamCalls::~StreamCalls() {
  const bool is_drained = flight_->drain();
  if (staged_) staged_->close(is_drained);
  if (is_drained) {
    if (trace_) trace_->collect();
    flight_->forget_links();
    if (windows()) windows()->close();
    drop_graphs();
    return;
  }
  // A stream may still use all of it.
  tutti::keep_for_ever(links_);
  tutti::keep_for_ever(memory_);
  if (windows()) windows()->keep_for_ever();
}

std::optional<StreamCalls::Planned> StreamCalls::plan(const Request& request) {
  const CollectiveTraits& traits = traits_of(request.collective);
  if (request.collective == Collective::barrier) return std::nullopt;
  // Each pair of ranks has a count of its own, which only a message shows to the other.
  if (request.variable && traits.exchanges()) return std::nullopt;
  if (traits.reduces() && (!kernels_ || !DeviceArithmetic::serves(type_of(request), request.op->kind())))
    return std::nullopt;
  const std::lock_guard lock{mutex_};
  if (tasks_.stages(request)) return std::nullopt;
  if (std::optional<Planned> by_tasks = tasks_.plan(request)) return by_tasks;
  if (tasks_.runners().alone) return std::nullopt;
  const Prepared& prepared = planner_.prepare(Collectives::wish_of(request, group_.size()));
  if (!units_of(request.collective, prepared).in_order) return std::nullopt;
  return Planned{&prepared};
}

const StreamCalls::Units& StreamCalls::units_of(Collective collective, const Prepared& prepared) {
  const auto found = units_.find(&prepared);
  if (found != units_.end()) return found->second;
  const algorithms::GivenPlans* const given = planner_.settings().given.get();
  const std::vector<algorithms::Plan> plans = plans_of(collective, prepared, given);
  Units units{algorithms::StreamUnits::of(collective, plans)};
  // Plans of the catalogue are proved with one slot.
  if (given && given->collective == collective && given->name == prepared.name) {
    const std::optional<int> needs = algorithms::check(collective, plans).in_order;
    units.in_order = needs && at(*needs) <= links_->form().slots;
  }
  return units_.emplace(&prepared, std::move(units)).first->second;
}

/// For the first call in a context: what later would have to wait for the streams.
void StreamCalls::enter(const cuda::KnownContext& context) {
  if (order_.has(context)) return;
  const cuda::Current current{context.get()};
  if (kernels_) kernels_->load();
  if (trace_) trace_->enter(context, !flight_->has_calls());
  order_.enter(context);
}

/// Where a call is running that the streams will never pass.
void StreamCalls::fail_with_device(const std::string& why) {
  group_.context().engine->exclusively([&] {
    if (!flight_->has_calls() || flight_->is_released()) return;
    flight_->device_fails();
    group_.abort(why);
  });
}

Work StreamCalls::start(const Request& request, const Planned& planned, const DeviceStream& given, bool asynchronous) {
  const std::string name = name_on_rank(request, group_);
  if (uses_memory(request, group_.rank())) require_device(name, given, device_);
  require_alignment(name, request, group_.rank());
  std::optional<DeviceStream> other;  // where this rank has no memory in the call
  if (given.device() != device_) other.emplace(name, context_.get(), nullptr).prepare(name);
  const DeviceStream& stream = other ? *other : given;

  const std::lock_guard lock{mutex_};
  StreamBound bound;
  std::optional<Lowered> lowered;
  Operation* operation = nullptr;
  try {
    lowered.emplace(get_ready(request, planned, stream, bound, counters_));
    if (trace_) {
      trace_->collect();
      lowered->traced = trace_->add(stream.known_context(), lowered->commands, lowered->arithmetic);
    }
    operation = &collectives_.make_stand_in(
        bound.request, planned.stand_in_name(), std::move(lowered->offsets),
        std::make_shared<const StreamProgress>(*links_, StreamProgress::Staged{staged_.get(), lowered->staged},
                                               lowered->commands, watch_, order_.passed(stream.known_context()),
                                               lowered->traced),
        planned.location.hash());
  } catch (const std::exception& error) {
    abort_for_all(group_, name, error);
  }
  operation->asynchronous = asynchronous;
  operation->on_device = stream.place();
  Work work = Internals::make<Work>(operation);
  submit(*operation, lowered->staged, [&] {
    counters_ = lowered->after;
    enqueue(bound, *lowered, stream, *operation);
  });
  return work;
}

/// All of a call that takes memory.
StreamCalls::Lowered StreamCalls::get_ready(const Request& request, const Planned& planned, const DeviceStream& stream,
                                            StreamBound& bound, const algorithms::StreamCounters& before) {
  require_memory(context_);
  enter(stream.known_context());
  bind_on_device(request, group_.rank(), context_.get(), device_, memory_->packed, bound);
  return lower(bound, planned, before);
}

StreamCalls::Lowered StreamCalls::lower(const StreamBound& bound, const Planned& planned,
                                        const algorithms::StreamCounters& before) {
  const Prepared& prepared = *planned.prepared;
  const Request& request = bound.request;
  const algorithms::Shape& shape = prepared.plan.shape;
  const Op& op = request.op ? *request.op : sum;
  const Arithmetic arithmetic{*group_.context().kernels, type_of(request), op, group_.size()};
  Lowered made{.offsets = {},
               .commands = {},
               .staged = {},
               .after = before,
               .areas = {},
               .arithmetic = arithmetic_of(request, arithmetic, kernels_, multiprocessors_)};
  const CallBuffers buffers = buffers_of(request, group_.rank(), group_.size(), shape.pipeline, made.offsets);
  made.areas.input = cuda::address_of(buffers.input.origin);
  made.areas.output = cuda::address_of(buffers.output.origin);
  if (planned.tasks) {
    tasks_.lower(planned, {request, buffers, arithmetic.element_size(), links_->form()}, made.after, made.commands,
                 made.areas);
    return made;
  }
  const algorithms::StreamSizes sizes =
      stream_sizes(buffers.input.partition, buffers.output.partition, shape, arithmetic.element_size());
  const algorithms::StreamStages stages =
      stream_stages(request.collective, arithmetic, request.input.data == request.output.data);
  const algorithms::StreamUnits& units = units_of(request.collective, prepared).units;
  const algorithms::StreamProgram program{
      request.collective, prepared.plan, units, sizes, stages, slots_of(links_->form(), arithmetic.sum_size())};
  for (std::size_t round = 0; round < program.rounds(); ++round) program.add_round(round, made.after, made.commands);
  const cuda::Current current{context_.get()};
  if (staged_) {
    made.staged = std::make_shared<StagedLinks::Call>(staged_->messages_of(made.commands, arithmetic.sum_size()));
    staged_->get_memory(made.staged->messages);
  }
  made.areas.scratch = memory_->scratch.get(device_, program.scratch() * arithmetic.sum_size());
  return made;
}

void StreamCalls::drop_removed_windows() {
  drop_graphs();
  if (!flight_->has_calls()) windows()->drop_removed();
}

/// Hands the operation to the engine, and lets `enqueue` put the call into its stream, unless the communicator has
/// failed; then the operation fails as well. It is submitted before the first command that waits: from there on the
/// driver may keep this thread, for another one that frees memory.
template <class Enqueue>
void StreamCalls::submit(Operation& operation, const std::shared_ptr<StagedLinks::Call>& call, const Enqueue& enqueue) {
  const std::shared_ptr<Engine>& engine = group_.context().engine;
  operation.then([flight = flight_, staged = staged_, call, engine](const Error* error) {
    if (!error) return;
    if (staged) staged->fail(*call);
    flight->release(engine);
  });
  flight_->call_begins();
  engine->submit(operation);
  if (flight_->is_released()) return flight_->call_ends();
  try {
    enqueue();
  } catch (const std::exception& error) {
    abort_for_all(group_, operation.describe(), error);
  }
}

void StreamCalls::enqueue(const StreamBound& bound, const Lowered& lowered, const DeviceStream& stream,
                          Operation& operation) {
  cuda::Commands to{stream.context(), stream.stream()};
  // Until the stream's queue has room for all. An operation for which no caller waits sees to that by itself.
  std::optional<DrivenByHelper> driven;
  if (!operation.asynchronous) driven.emplace(group_.context().engine);
  try {
    order_.come_after_latest(to, stream);
    add(bound, lowered, to, false);
    order_.note(to, stream);
    notice_passing(to, lowered, operation);
  } catch (...) {
    // What is in the stream still uses memory and links.
    try {
      to.call([flight = flight_] { flight->call_ends(); });
    } catch (...) {
      flight_->call_breaks();
    }
    throw;
  }
}

void StreamCalls::add(const StreamBound& bound, const Lowered& lowered, cuda::Commands& to, bool is_captured) const {
  constexpr auto where = DeviceParts::CopyIn::device_memory;
  if (bound.copy_of_input) bound.collected.collect(to, bound.copy_of_input, where);
  const StreamLowering lowering{*links_, lowered.areas, lowered.arithmetic, to, is_captured};
  if (lowered.traced) lowered.traced->enters();
  lowering.add(lowered.commands, lowered.traced ? lowered.traced->marks() : std::span<const StreamMark>{});
  if (bound.copy_of_output) bound.spread.spread(to, bound.copy_of_output, where);
}

void StreamCalls::notice_passing(cuda::Commands& to, const Lowered& lowered, Operation& operation) {
  static_cast<Pending&>(operation).retain();
  const std::shared_ptr<Operation> kept{&operation, [](Operation* old) { static_cast<Pending*>(old)->release(); }};
  to.call([flight = flight_, engine = group_.context().engine, staged = staged_, call = lowered.staged,
           traced = lowered.traced, kept] {
    if (traced) traced->leaves(flight->is_released() || flight->is_worthless());
    flight->call_ends();
    engine->post([flight, staged, call, kept] {
      const auto passed = [flight, kept] {
        // A rank that has failed sends what it has not got. This one will be told of the failure.
        if (!kept->over() && !flight->is_worthless()) kept->stream_has_passed();
      };
      staged ? staged->when_sent(*call, passed) : passed();
    });
  });
}

}  // namespace tutti::detail
