// Calls on streams that are being captured into graphs. A graph holds the commands of the same program as other calls.

#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "lib/api/captured_call.h"
#include "lib/api/communicator_state.h"
#include "lib/api/device_calls.h"
#include "lib/api/stream_calls.h"
#include "lib/base/internals.h"
#include "lib/engine/engine.h"
#include "lib/group/context.h"

namespace tutti::detail {
namespace {

using Kind = algorithms::StreamCommand::Kind;
using Word = transport::StreamLinks::Word;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// What the caller gets: there is nothing to wait for, but other streams of the capture can come after the call.
class CapturedWork final : public Pending {
 public:
  CapturedWork(std::shared_ptr<Engine> engine, const DeviceStream& stream) : Pending(std::move(engine)) {
    on_device = {stream.context(), stream.stream(), true};
    finish();
  }
  void start() noexcept override {}
  void expire() noexcept override {}
  void departed(std::span<const int>) noexcept override {}
  void abort(std::string_view) noexcept override {}

 private:
  void recycle() noexcept override { delete this; }
};

std::vector<int> all_ranks(const Group& group) {
  std::vector<int> ranks(at(group.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Those with which a call exchanges messages.
std::vector<int> peers_in(const algorithms::StreamCounters& counters) {
  std::vector<int> peers;
  for (std::size_t peer = 0; peer < counters.sent.size(); ++peer)
    if (counters.sent[peer] > 0 || counters.received[peer] > 0) peers.push_back(static_cast<int>(peer));
  return peers;
}

}  // namespace

Work StreamCalls::capture(Communicator& comm, const Request& request, const Planned& planned,
                          const DeviceStream& stream) {
  const std::string name = name_on_rank(request, group_);
  if (staged_)
    stream.refuse_capture(name,
                          "some ranks are on other hosts, to which the engine moves messages when it is called: make "
                          "the call outside of the capture");
  require_same_device(name, stream);
  require_alignment(name, request, group_.rank());
  const std::lock_guard lock{mutex_};
  const cuda::KnowsOfCapture knows;
  std::optional<Error> failed;
  group_.context().engine->exclusively([&] { failed = group_.failure(); });
  if (failed) throw Error{*failed};
  if (!replays_) replays_ = std::make_shared<Replays>(comm.subgroup(all_ranks(group_)), group_, flight_);
  try {
    capture(request, planned, stream);
  } catch (const Error& error) {
    // A part of the call may be in the graph, where it must wait for nobody.
    flight_->release(group_.context().engine);
    abort(name, error);
  }
  return Internals::make<Work>(new CapturedWork{group_.context().engine, stream});
}

void StreamCalls::capture(const Request& request, const Planned& planned, const DeviceStream& stream) {
  StreamBound bound;
  const Lowered lowered =
      get_ready(request, planned, stream.context(), bound, algorithms::StreamCounters{group_.size()});
  auto progress = std::make_shared<const StreamProgress>(*links_, StreamProgress::Staged{}, lowered.commands, watch_,
                                                         passed_.at(stream.context()), nullptr, true);
  const auto call = std::make_shared<CapturedCall>(
      replays_, CapturedCall::Parts{std::make_unique<const DeviceRequest>(bound.request, OnStream{stream.stream()}),
                                    stand_in_name(planned), lowered.offsets, std::move(progress), planned.location,
                                    links_, memory_});
  replays_->add(call);
  cuda::Commands to{stream.context(), stream.stream()};
  cuda::keep_with(stream.capture(), std::make_unique<std::function<void()>>([call] { drop_later(call); }));
  if (captured_.in == stream.capture().id && captured_.stream != stream.stream()) to.wait(captured_.passed);
  to.call([](void* data) { static_cast<CapturedCall*>(data)->begins(); }, call.get());
  links_->enter(to, peers_in(lowered.after));
  add(bound, lowered, to, true);
  // The next call begins with empty links.
  for (const int peer : links_->form().sharing)
    if (lowered.after.sent[at(peer)] > 0) links_->wait(to, Word::captured_freed, peer, lowered.after.sent[at(peer)]);
  to.call([](void* data) { static_cast<CapturedCall*>(data)->ends(); }, call.get());
  auto passed = captured_passed_.find(stream.context());
  if (passed == captured_passed_.end())
    passed = captured_passed_.emplace(stream.context(), cuda::OwnEvent{stream.context()}).first;
  captured_ = {stream.capture().id, stream.stream(), passed->second.get()};
  to.record(captured_.passed);
}

bool StreamCalls::graphs_use(std::uint32_t window) {
  drop_graphs();
  const std::lock_guard lock{mutex_};
  return replays_ && replays_->use(window);
}

}  // namespace tutti::detail
