#include "lib/api/stream_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "algorithms/check.h"
#include "lib/api/communicator_state.h"
#include "lib/base/gpu/context.h"
#include "lib/base/internals.h"
#include "lib/base/wire_counts.h"
#include "lib/collective/call_buffers.h"
#include "lib/collective/stream_binding.h"
#include "lib/gpu/device_kernels.h"
#include "lib/gpu/device_parts.h"
#include "lib/gpu/pinned_memory.h"
#include "lib/group/context.h"

namespace tutti::detail {

using namespace std::chrono_literals;
using transport::StreamLinks;
using Word = StreamLinks::Word;

namespace {

constexpr auto pause = 2ms;
/// A stream whose waits have ended runs to its end soon, unless work of the program's holds it up.
constexpr auto longest_drain = 10s;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

Planner planner_for_streams(const Planner& planner) {
  Planner::Settings settings = planner.settings();
  settings.transport = "cuda_ipc";
  settings.oversubscribed = settings.boards = false;
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

}  // namespace

/// What is known of the calls that streams have not passed. It owns nothing of the driver's: a stream drops it where
/// the driver must not be called.
struct StreamCalls::Flight {
  explicit Flight(StreamLinks& of) : links(&of) {}

  std::atomic<int> calls{0};
  std::atomic<bool> broken{false};    // a call is in its stream in part only, and will not say when that has passed
  std::atomic<bool> released{false};  // there was a failure: waits are being ended, and there are no more calls

  void end_waits() {
    const std::lock_guard lock{mutex};
    if (links) links->end_waits();
  }
  void forget_links() {
    const std::lock_guard lock{mutex};
    links = nullptr;
  }

 private:
  std::mutex mutex;
  StreamLinks* links;
};

/// Ends the waits of this rank after a failure, again and again until the streams have passed all calls, since other
/// ranks may still write to the words.
class StreamRelease final : public Pending {
 public:
  StreamRelease(std::shared_ptr<Engine> engine, std::function<bool()> release)
      : Pending(std::move(engine)), release_(std::move(release)), end_(Clock::now() + longest_drain) {
    asynchronous = true;
  }
  void start() noexcept override { expire(); }
  void expire() noexcept override {
    if (release_() || Clock::now() >= end_) return engine_->finished(*this);
    engine_->look_at(*this, Clock::now() + pause);
  }
  void departed(std::span<const int>) noexcept override {}
  void abort(std::string_view) noexcept override {}

 private:
  void recycle() noexcept override { delete this; }

  const std::function<bool()> release_;
  const Clock::time_point end_;
};

/// What a call awaits, from the counters before and after it.
class StreamCalls::Part final : public StreamPart {
 public:
  /// `links` exist as long as calls of the communicator run.
  Part(const StreamLinks& links, const algorithms::StreamCounters& before, const algorithms::StreamCounters& after)
      : links_(links), before_(before), after_(after) {}

  bool awaits(int peer) const noexcept override {
    const std::uint64_t slots = links_.form().slots;
    const std::uint64_t sent = after_.sent[at(peer)];
    const bool takes_slots = sent > before_.sent[at(peer)] && sent > slots;
    return after_.received[at(peer)] > links_.value(Word::arrived, peer) ||
           (takes_slots && sent - slots > links_.value(Word::freed, peer));
  }
  std::string how_far() const override {
    std::uint64_t all = 0, here = 0;
    for (std::size_t peer = 0; peer < after_.received.size(); ++peer) {
      const std::uint64_t before = before_.received[peer], after = after_.received[peer];
      all += after - before;
      here += std::clamp(links_.value(Word::arrived, static_cast<int>(peer)), before, after) - before;
    }
    return fmt::format("{} of {} messages had arrived on this rank's GPU", here, all);
  }

 private:
  const StreamLinks& links_;
  const algorithms::StreamCounters before_, after_;
};

/// A call on this rank's memory. Its buffers are those of the caller, or, where those have gaps, copies.
struct StreamCalls::Bound {
  Request request;
  std::vector<std::size_t> counts, recv_counts;
  DeviceParts collected, spread;  // what goes to a copy before, and comes from one afterwards
  cuda::Address copy_of_input = 0, copy_of_output = 0;
};

StreamCalls::StreamCalls(Group& group, Collectives& collectives, std::unique_ptr<StreamLinks> links,
                         const DeviceKernels* kernels, cuda::Context context)
    : group_(group),
      collectives_(collectives),
      kernels_(kernels),
      context_(context),
      device_(cuda::device_of(context)),
      multiprocessors_(cuda::facts_of(device_).multiprocessors),
      links_(std::move(links)),
      flight_(std::make_shared<Flight>(*links_)),
      planner_(planner_for_streams(collectives.planner())),
      counters_(group.size()) {
  enter(context);
}

/// The engine's work for this communicator has ended.
StreamCalls::~StreamCalls() {
  const auto end = Clock::now() + longest_drain;
  while (flight_->calls > 0 && !flight_->broken && Clock::now() < end) {
    if (flight_->released) links_->end_waits();
    std::this_thread::sleep_for(pause);
  }
  flight_->forget_links();
  if (flight_->calls == 0 && !flight_->broken) return;
  // A stream may still use all of it.
  (void)links_.release();
  for (GrowingMemory* const memory : {&scratch_, &packed_input_, &packed_output_}) memory->keep_for_ever();
}

bool StreamCalls::serves(const Request& request) {
  const CollectiveTraits& traits = traits_of(request.collective);
  if (request.collective == Collective::barrier) return false;
  // Each pair of ranks has a count of its own, which only a message shows to the other.
  if (request.variable && traits.exchanges()) return false;
  if (traits.reduces() && (!kernels_ || !DeviceArithmetic::serves(type_of(request), request.op->kind()))) return false;
  const std::lock_guard lock{mutex_};
  return units_of(request.collective, planner_.prepare(Collectives::wish_of(request, group_.size()))).in_order;
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

void StreamCalls::require_same_device(const std::string& name, const DeviceStream& stream) const {
  if (stream.device() != device_)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("{}: the memory is on GPU {}, and earlier calls of this communicator were on GPU {}: give "
                            "memory of one GPU, or use another communicator",
                            name, stream.device(), device_)};
}

/// Kernels load whole elements.
void StreamCalls::require_alignment(const std::string& name, const Request& request) const {
  const std::size_t element = std::min<std::size_t>(size_of(type_of(request)), 8);  // complex numbers are two of half
  if (request.op == nullptr) return;
  for (const auto& [buffer, address] :
       {std::pair{"in", cuda::address_of(request.input.data)}, std::pair{"out", cuda::address_of(request.output.data)}})
    if (address % element != 0)
      throw Error{ErrorCode::invalid_argument,
                  fmt::format("{}: the address of {} ({:#x}) is no multiple of {}, the size of an element", name,
                              buffer, address, element)};
}

/// For the first call in a context: what later would have to wait for the streams.
void StreamCalls::enter(cuda::Context context) {
  if (passed_.contains(context)) return;
  const cuda::Current current{context};
  if (kernels_) kernels_->load();
  passed_.emplace(context, cuda::OwnEvent{context});
}

Work StreamCalls::start(const Request& request, const DeviceStream& given, bool asynchronous) {
  const std::string name = name_on_rank(request, group_);
  const bool has_memory = uses_input(request, group_.rank()) || uses_output(request, group_.rank());
  if (has_memory) require_same_device(name, given);
  require_alignment(name, request);
  const DeviceStream stream = given.device() == device_ ? given : DeviceStream{name, context_, nullptr};
  const std::lock_guard lock{mutex_};
  const Prepared& prepared = planner_.prepare(Collectives::wish_of(request, group_.size()));
  enter(stream.context());

  const CollectiveTraits& traits = traits_of(request.collective);
  const std::size_t element = size_of(type_of(request));
  Bound bound{request,
              in_wire_elements(request.counts, request.input.unit),
              in_wire_elements(request.recv_counts, request.input.unit),
              {},
              {}};
  bound.request.counts = bound.counts;
  bound.request.recv_counts = bound.recv_counts;
  bound.request.displacements = bound.request.recv_displacements = {};
  if (!request.displacements.empty()) {
    const cuda::Current current{context_};
    const std::size_t caller_element = request.input.unit * element;
    if (traits.input.extent == Extent::parts && uses_input(request, group_.rank())) {
      bound.collected = {request.input.data, element, bound.counts, caller_element, request.displacements};
      bound.copy_of_input = packed_input_.get(device_, bound.collected.bytes());
      bound.request.input.data = reinterpret_cast<const void*>(bound.copy_of_input);
      bound.request.input.count = bound.collected.bytes() / element;
    }
    if (traits.output.extent == Extent::parts && uses_output(request, group_.rank())) {
      bound.spread = {request.output.data, element, bound.counts, caller_element, request.displacements};
      bound.copy_of_output = packed_output_.get(device_, bound.spread.bytes());
      bound.request.output.data = reinterpret_cast<void*>(bound.copy_of_output);
      bound.request.output.count = bound.spread.bytes() / element;
    }
  }
  return enqueue(bound, prepared, stream, asynchronous);
}

Work StreamCalls::enqueue(const Bound& bound, const Prepared& prepared, const DeviceStream& stream, bool asynchronous) {
  const Request& request = bound.request;
  const Collective collective = request.collective;
  const algorithms::Shape& shape = prepared.plan.shape;
  const Context& context = group_.context();
  const Arithmetic arithmetic{*context.kernels, type_of(request), request.op ? *request.op : sum, group_.size()};
  PartOffsets offsets;
  const CallBuffers buffers = buffers_of(request, group_.rank(), group_.size(), shape.pipeline, offsets);
  const algorithms::StreamSizes sizes =
      stream_sizes(buffers.input.partition, buffers.output.partition, shape, arithmetic.element_size());
  const algorithms::StreamSlots slots{links_->form().slot_bytes / arithmetic.sum_size(), links_->form().slots};
  const bool in_place = request.input.data == request.output.data;
  const algorithms::StreamProgram program{collective,
                                          prepared.plan,
                                          units_of(collective, prepared).units,
                                          sizes,
                                          stream_stages(collective, arithmetic, in_place),
                                          slots};
  algorithms::StreamCounters after = counters_;
  algorithms::StreamCommands commands;
  for (std::size_t round = 0; round < program.rounds(); ++round) program.add_round(round, after, commands);

  DeviceAreas areas{cuda::address_of(buffers.input.origin), cuda::address_of(buffers.output.origin)};
  {
    const cuda::Current current{context_};
    areas.scratch = scratch_.get(device_, program.scratch() * arithmetic.sum_size());
  }
  const DeviceArithmetic computing{kernels_,
                                   type_of(request),
                                   request.op ? request.op->kind() : OpKind::sum,
                                   arithmetic.element_size(),
                                   arithmetic.sum_size(),
                                   arithmetic.factor(),
                                   arithmetic.divisor(),
                                   multiprocessors_};

  const std::string algorithm = fmt::format("{} on streams", prepared.name);
  Operation& operation = collectives_.make_stand_in(request, algorithm, std::move(offsets),
                                                    std::make_shared<const Part>(*links_, counters_, after));
  operation.asynchronous = asynchronous;
  Work work = Internals::make<Work>(&operation);
  const std::shared_ptr<Engine>& engine = context.engine;
  operation.then([flight = flight_, engine](const Error* error) {
    if (!error || flight->released.exchange(true)) return;
    auto& release = *new StreamRelease{engine, [flight] {
                                         flight->end_waits();
                                         return flight->calls == 0;
                                       }};
    engine->submit(release);
    release.release();
  });
  // Before the first command that waits: from there on the driver may keep this thread.
  flight_->calls.fetch_add(1);
  engine->submit(operation);
  if (flight_->released) {  // the operation fails as well
    flight_->calls.fetch_sub(1);
    return work;
  }
  counters_ = std::move(after);
  Pending& pending = operation;
  pending.retain();
  try {
    cuda::Commands to{stream.context(), stream.stream()};
    if (last_passed_ && last_stream_ != stream.stream()) to.wait(last_passed_);
    if (bound.copy_of_input) bound.collected.collect(to, bound.copy_of_input);
    StreamLowering{*links_, areas, computing, to}.add(commands);
    to.flush();
    if (bound.copy_of_output) bound.spread.spread(to, bound.copy_of_output);
    const cuda::OwnEvent& passed = passed_.at(stream.context());
    to.record(passed.get());
    last_stream_ = stream.stream();
    last_passed_ = passed.get();
    to.call([flight = flight_, engine, &operation, &pending] {
      flight->calls.fetch_sub(1);
      engine->post([&operation, &pending] {
        if (!operation.over()) operation.stream_has_passed();
        pending.release();
      });
    });
  } catch (const Error& error) {
    flight_->broken = true;
    pending.release();
    engine->exclusively([&] { group_.abort(error.what()); });
    throw Error{error.code(), fmt::format("{}: {}", name_on_rank(request, group_), error.what()), group_.rank()};
  }
  return work;
}

bool StreamCalls::try_links(std::chrono::milliseconds limit) {
  constexpr std::size_t count = 64;  // elements for each rank
  const std::lock_guard lock{mutex_};
  const cuda::Current current{context_};
  const std::size_t all = count * at(group_.size());
  const std::size_t bytes = all * sizeof(std::uint32_t);
  cuda::SharedMemory memory = cuda::SharedMemory::create(device_, 2 * bytes);
  PinnedMemory host = PinnedMemory::take(bytes);
  auto* const elements = reinterpret_cast<std::uint32_t*>(host.data());
  const auto element = [](int from, int to, std::size_t i) {
    return static_cast<std::uint32_t>(from * 1'000'003 + to * 4099 + static_cast<int>(i));
  };
  for (int to = 0; to < group_.size(); ++to)
    for (std::size_t i = 0; i < count; ++i) elements[at(to) * count + i] = element(group_.rank(), to, i);

  const Prepared& prepared =
      planner_.prepare({.collective = Collective::all_to_all, .algorithm = "pairwise", .bytes = bytes});
  const auto cuts = Partition::of(Collective::all_to_all, count, group_.size(), 1, sizeof(std::uint32_t));
  const algorithms::StreamSizes sizes = stream_sizes(cuts, cuts, prepared.plan.shape, sizeof(std::uint32_t));
  const algorithms::StreamProgram program{Collective::all_to_all,
                                          prepared.plan,
                                          units_of(Collective::all_to_all, prepared).units,
                                          sizes,
                                          {},
                                          {links_->form().slot_bytes / sizeof(std::uint32_t), links_->form().slots}};
  algorithms::StreamCommands commands;
  for (std::size_t round = 0; round < program.rounds(); ++round) program.add_round(round, counters_, commands);
  const DeviceAreas areas{memory.address(), memory.address() + bytes,
                          scratch_.get(device_, program.scratch() * sizeof(std::uint32_t))};
  const DeviceArithmetic moving{nullptr, DataType::u32, OpKind::sum, sizeof(std::uint32_t), sizeof(std::uint32_t)};

  const cuda::OwnStream stream{context_};
  const cuda::Address on_host = cuda::address_of(host.data());
  const auto has_passed = [&] {
    const cuda::Result result = cuda::driver().cuStreamQuery.result(stream.get());
    if (result != cuda::Result::success && result != cuda::Result::not_ready) cuda::fail("cuStreamQuery", result);
    return result == cuda::Result::success;
  };
  cuda::Commands to{context_, stream.get()};
  to.copy(areas.input, on_host, bytes);
  StreamLowering{*links_, areas, moving, to}.add(commands);
  to.copy(on_host, areas.output, bytes);
  bool in_time = true;
  for (auto end = Clock::now() + limit; !has_passed(); std::this_thread::yield()) {
    if (Clock::now() < end) continue;
    in_time = false;
    links_->end_waits();
    if (Clock::now() < end + longest_drain) continue;
    new PinnedMemory{std::move(host)};  // the stream may still write to it
    new cuda::SharedMemory{std::move(memory)};
    return false;
  }
  for (int from = 0; from < group_.size(); ++from)
    for (std::size_t i = 0; i < count; ++i)
      if (elements[at(from) * count + i] != element(from, group_.rank(), i)) return false;
  return in_time;
}

}  // namespace tutti::detail
