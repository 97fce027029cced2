#include "lib/api/stream_capture.h"

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/api/device_calls.h"
#include "lib/base/index.h"
#include "lib/base/internals.h"
#include "lib/engine/engine.h"
#include "lib/group/context.h"

namespace tutti::detail {
namespace {

using Kind = algorithms::StreamCommand::Kind;
using Word = transport::StreamLinks::Word;

/// What the caller gets: there is nothing to wait for, but other streams of the capture can come after the call.
class CapturedWork final : public Pending {
 public:
  CapturedWork(std::shared_ptr<Engine> engine, const DeviceStream& stream) : Pending(std::move(engine)) {
    on_device = stream.place();
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

Work StreamCapture::add(Communicator& comm, const Request& request, const StreamCalls::Planned& planned,
                        const DeviceStream& stream) {
  Group& group = calls_.group_;
  const std::shared_ptr<Engine>& engine = group.context().engine;
  const std::string name = name_on_rank(request, group);
  if (calls_.staged_)
    stream.refuse_capture(name,
                          "some ranks are on other hosts, to which the engine moves messages when it is called: make "
                          "the call outside of the capture");
  require_device(name, stream, calls_.device_);
  require_alignment(name, request, group.rank());
  const std::lock_guard lock{calls_.mutex_};
  const cuda::KnowsOfCapture knows;
  drop_graphs_silently();
  std::optional<Error> failed;
  engine->exclusively([&] { failed = group.failure(); });
  if (failed) throw Error{*failed};
  if (!replays_) replays_ = std::make_shared<Replays>(comm.subgroup(all_ranks(group)), group, calls_.flight_);
  ++calls_made_;
  try {
    add(request, planned, stream);
  } catch (const std::exception& error) {
    const cuda::Current current{stream.context()};
    // There will be no graph, and no rank waits before it launches one.
    if (cuda::capture_of(stream.stream()).is_spoiled)
      throw Error{ErrorCode::invalid_argument,
                  fmt::format("{}: the capture was spoiled meanwhile: {}", name, error.what())};
    // A part of the call may be in the graph, where it must wait for nobody.
    calls_.flight_->release(engine);
    abort_for_all(group, name, error);
  }
  return Internals::make<Work>(new CapturedWork{engine, stream});
}

void StreamCapture::add(const Request& request, const StreamCalls::Planned& planned, const DeviceStream& stream) {
  const int ranks = calls_.group_.size();
  transport::StreamLinks& links = *calls_.links_;
  StreamBound bound;
  const StreamCalls::Lowered lowered =
      calls_.get_ready(request, planned, stream, bound, algorithms::StreamCounters{ranks});
  auto progress =
      std::make_shared<const StreamProgress>(links, StreamProgress::Staged{}, lowered.commands, calls_.watch_,
                                             calls_.order_.passed(stream.known_context()), nullptr, true);
  const std::shared_ptr<CallOrder> capture = captured_in(stream.capture().id);
  const auto call = std::make_shared<CapturedCall>(
      replays_, CapturedCall::Parts{std::make_unique<const DeviceRequest>(bound.request, OnStream{stream.stream()}),
                                    planned.stand_in_name(), calls_made_, lowered.offsets, std::move(progress),
                                    planned.location, calls_.links_, calls_.memory_, capture});
  replays_->add(call);
  cuda::Commands to{stream.context(), stream.stream()};
  cuda::keep_with(stream.capture(), std::make_unique<std::function<void()>>([call] { drop_later(call); }));
  capture->come_after_latest(to, stream);
  to.call([](void* data) { static_cast<CapturedCall*>(data)->begins(); }, call.get());
  std::exception_ptr failed;
  try {
    links.enter(to, peers_in(lowered.after));
    calls_.add(bound, lowered, to, true);
    // The next call begins with empty links.
    for (const int peer : links.form().sharing)
      if (lowered.after.sent[at(peer)] > 0) links.wait(to, Word::captured_freed, peer, lowered.after.sent[at(peer)]);
    to.flush();
  } catch (...) {
    failed = std::current_exception();
  }
  // A graph that begins the call has to end it.
  try {
    to.call([](void* data) { static_cast<CapturedCall*>(data)->ends(); }, call.get());
  } catch (...) {
    call->breaks();
    if (!failed) throw;
  }
  if (failed) std::rethrow_exception(failed);
  capture->enter(stream.known_context());
  capture->note(to, stream);
}

std::shared_ptr<CallOrder> StreamCapture::captured_in(std::uint64_t capture) {
  if (const auto found = captures_.find(capture); found != captures_.end())
    if (auto captured = found->second.lock()) return captured;
  std::erase_if(captures_, [](const auto& one) { return one.second.expired(); });
  auto captured = std::make_shared<CallOrder>();
  captures_[capture] = captured;
  return captured;
}

bool StreamCapture::use(std::uint32_t window) {
  drop_graphs();
  std::shared_ptr<Replays> replays;  // is asked without the mutex: it may wait for streams
  {
    const std::lock_guard lock{calls_.mutex_};
    replays = replays_;
  }
  return replays && replays->use(window);
}

void StreamCapture::close() noexcept {
  if (replays_) replays_->close();
}

}  // namespace tutti::detail
