#include "lib/api/captured_call.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/api/communicator_state.h"
#include "lib/base/internals.h"
#include "lib/engine/engine.h"
#include "lib/group/context.h"

namespace tutti::detail {
namespace {

struct Dropped {
  std::mutex mutex;
  std::vector<std::shared_ptr<const CapturedCall>> all;
};

Dropped& dropped() {
  static Dropped& calls = *new Dropped;
  return calls;
}

/// Calls of graphs that ranks launch in different orders differ by it, also where they are equal else.
constexpr std::uint32_t spread(std::uint32_t number) { return number * 0x9e3779b1U; }

}  // namespace

void drop_later(std::shared_ptr<const CapturedCall> call) noexcept {
  const std::lock_guard lock{dropped().mutex};
  dropped().all.push_back(std::move(call));
}

void drop_graphs() noexcept {
  std::vector<std::shared_ptr<const CapturedCall>> gone;
  const std::lock_guard lock{dropped().mutex};
  std::vector<std::shared_ptr<const CapturedCall>>& all = dropped().all;
  const auto kept = std::partition(all.begin(), all.end(), [](const auto& one) { return one.use_count() > 1; });
  gone.assign(std::make_move_iterator(kept), std::make_move_iterator(all.end()));
  all.erase(kept, all.end());
}

/// One after the other, since the last one of a communicator may own what the others shared.
void drop_graphs_silently() noexcept {
  for (std::size_t looked_at = 0;;) {
    std::shared_ptr<const CapturedCall> gone;  // goes behind the lock, for which a thread of the driver's may wait
    const std::lock_guard lock{dropped().mutex};
    std::vector<std::shared_ptr<const CapturedCall>>& all = dropped().all;
    while (looked_at < all.size() && (all[looked_at].use_count() > 1 || !all[looked_at]->goes_silently())) ++looked_at;
    if (looked_at == all.size()) return;
    gone = std::exchange(all[looked_at], std::move(all.back()));
    all.pop_back();
  }
}

// ---- Replays -------------------------------------------------------------------------------------------------------

Replays::Replays(Communicator apart, Group& group, std::shared_ptr<StreamFlight> flight)
    : apart_(std::move(apart)), group_(group), engine_(group.context().engine), flight_(std::move(flight)) {}

void Replays::add(const std::shared_ptr<const CapturedCall>& call) {
  const std::lock_guard lock{mutex_};
  if (all_.size() >= looks_at_) {
    std::erase_if(all_, [](const auto& one) { return one.expired(); });
    looks_at_ = std::max<std::size_t>(16, 2 * all_.size());
  }
  all_.push_back(call);
}

/// A call whose graph is gone may have its last owner here. Letting go of it may wait for streams, which wait for the
/// mutex in note().
bool Replays::use(std::uint32_t window) const {
  std::vector<std::shared_ptr<const CapturedCall>> calls;
  {
    const std::lock_guard lock{mutex_};
    calls.reserve(all_.size());
    for (const auto& one : all_)
      if (auto call = one.lock()) calls.push_back(std::move(call));
  }
  return std::ranges::any_of(calls, [&](const auto& call) {
    const DeviceLocation& location = call->parts().location;
    return (location.input && location.input->number == window) ||
           (location.output && location.output->number == window);
  });
}

void Replays::close() noexcept {
  for (;;) {
    Operation* passed = nullptr;
    engine_->exclusively([&] {
      const auto found = std::ranges::find_if(running_, [](const Running& one) { return one.is_passed; });
      if (found == running_.end()) return has_ended_.store(true);
      passed = found->operation;
      static_cast<Pending*>(passed)->retain();
    });
    if (!passed) break;
    while (!engine_->wait(*passed, Clock::now() + std::chrono::hours{1})) {
    }
    static_cast<Pending*>(passed)->release();
  }
  // One that has just begun may be on its way to the engine, which must not get it later.
  engine_->exclusively([] {});
  apart_.reset();
}

/// Streams run the calls of a communicator one after the other, and the engine has to hear of them in this order.
void Replays::note(std::shared_ptr<CapturedCall> call, bool is_end) noexcept {
  {
    const std::lock_guard lock{mutex_};
    events_.push_back({std::move(call), is_end});
  }
  engine_->post([self = shared_from_this()] { self->catch_up(); });
}

void Replays::catch_up() {
  for (;;) {
    Event event;
    {
      const std::lock_guard lock{mutex_};
      if (events_.empty()) return;
      event = std::move(events_.front());
      events_.pop_front();
    }
    event.is_end ? end(*event.call) : begin(*event.call);
  }
}

/// Nothing stands for a call after the communicator has failed or ended. Then its waits end.
void Replays::begin(CapturedCall& call) {
  if (has_ended() || flight_->is_released())
    return flight_->release_again(engine_, [kept = call.shared_from_this()] { kept->parts().links->end_waits(); });
  const CapturedCall::Parts& parts = call.parts();
  Operation& operation = Internals::state(*apart_)->collectives.make_stand_in(
      parts.request->request, parts.algorithm, parts.offsets, parts.progress,
      parts.location.hash() ^ spread(parts.number));
  operation.asynchronous = true;
  running_.push_back({&operation, false});
  static_cast<Pending&>(operation).retain();
  operation.then([self = shared_from_this(), &operation](const Error* error) { self->over(operation, error); });
  engine_->submit(operation);
  call.operation = &operation;
}

void Replays::end(CapturedCall& call) {
  Operation* const operation = std::exchange(call.operation, nullptr);
  if (!operation) return;
  // A rank that has failed sends what it has not got. This one will be told of the failure.
  if (!operation->over() && !flight_->is_worthless()) {
    for (Running& one : running_) one.is_passed = one.is_passed || one.operation == operation;
    operation->stream_has_passed();
  }
  static_cast<Pending*>(operation)->release();
}

void Replays::over(Operation& operation, const Error* error) {
  std::erase_if(running_, [&](const Running& one) { return one.operation == &operation; });
  if (error) {
    flight_->release(engine_);
    // Its number is none of the program's calls.
    Error reason{error->code(), error->what(), error->rank()};
    Internals::set_details(reason, error->details());
    group_.fail(reason);
  }
  static_cast<Pending&>(operation).release();
}

// ---- A call --------------------------------------------------------------------------------------------------------

CapturedCall::CapturedCall(std::shared_ptr<Replays> replays, Parts parts)
    : replays_(std::move(replays)), parts_(std::move(parts)) {}

bool CapturedCall::goes_silently() const noexcept {
  const auto has_other = [](const auto& owned) { return !owned || owned.use_count() > 1; };
  return has_other(parts_.location.input) && has_other(parts_.location.output) && has_other(parts_.links) &&
         has_other(parts_.memory);
}

/// Where nothing will stand for the call, its stream waits for nobody.
void CapturedCall::begins() noexcept {
  if (is_broken_) return parts_.links->end_waits();
  replays_->flight().call_begins();
  if (replays_->has_ended() || replays_->flight().is_released())
    parts_.links->end_waits();
  else
    parts_.links->begin_captured();
  replays_->note(shared_from_this(), false);
}

void CapturedCall::ends() noexcept {
  replays_->flight().call_ends();
  replays_->note(shared_from_this(), true);
}

}  // namespace tutti::detail
