#include "lib/api/stream_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

namespace tutti::detail {
namespace {

using Kind = algorithms::StreamCommand::Kind;
using Word = transport::StreamLinks::Word;

bool is_wait(const algorithms::StreamCommand& command) {
  return command.kind == Kind::wait_arrival || command.kind == Kind::wait_credit;
}

}  // namespace

/// What the engine does after a failure, as long as it runs: then other ranks do not write to the words any more.
class StreamRelease final : public Pending {
 public:
  StreamRelease(std::shared_ptr<Engine> engine, std::shared_ptr<StreamFlight> flight, std::function<void()> end_waits)
      : Pending(std::move(engine)),
        flight_(std::move(flight)),
        end_waits_(std::move(end_waits)),
        end_(Clock::now() + longest_drain) {
    asynchronous = true;
  }
  void start() noexcept override { expire(); }
  void expire() noexcept override {
    end_waits_();
    if (!flight_->has_calls() || Clock::now() >= end_ || engine_->has_stopped()) return engine_->finished(*this);
    engine_->look_at(*this, Clock::now() + drain_pause);
  }
  void engine_stops() noexcept override { expire(); }
  void departed(std::span<const int>) noexcept override {}
  void abort(std::string_view) noexcept override {}

 private:
  void recycle() noexcept override { delete this; }

  const std::shared_ptr<StreamFlight> flight_;
  const std::function<void()> end_waits_;
  const Clock::time_point end_;
};

void StreamFlight::release(const std::shared_ptr<Engine>& engine) {
  if (!is_released_.exchange(true)) release_again(engine, [flight = shared_from_this()] { flight->end_waits(); });
}

void StreamFlight::release_again(const std::shared_ptr<Engine>& engine, std::function<void()> end_waits) {
  auto& release = *new StreamRelease{engine, shared_from_this(), std::move(end_waits)};
  engine->submit(release);
  release.Pending::release();
}

void StreamFlight::end_waits() noexcept {
  const std::lock_guard lock{mutex_};
  if (links_) links_->end_waits();
}

bool StreamFlight::is_worthless() noexcept {
  const std::lock_guard lock{mutex_};
  return links_ && links_->is_worthless();
}

bool StreamFlight::drain() noexcept {
  for (const auto end = Clock::now() + longest_drain; has_calls(); std::this_thread::sleep_for(drain_pause)) {
    if (is_broken_ || Clock::now() >= end) return false;
    end_waits();
  }
  return !is_broken_;
}

void StreamFlight::forget_links() noexcept {
  const std::lock_guard lock{mutex_};
  links_ = nullptr;
}

StreamProgress::StreamProgress(const transport::StreamLinks& links, Staged staged,
                               const algorithms::StreamCommands& commands, DeviceWatch& watch,
                               const cuda::OwnEvent& passed, std::shared_ptr<StreamTrace::Call> traced,
                               bool is_captured)
    : links_(links),
      staged_(std::move(staged)),
      watch_(watch),
      passed_(passed),
      traced_(std::move(traced)),
      is_captured_(is_captured) {
  std::ranges::copy_if(commands.all, std::back_inserter(commands_), [](const algorithms::StreamCommand& command) {
    return is_wait(command) || command.kind == Kind::signal_arrival || command.kind == Kind::signal_credit;
  });
}

bool StreamProgress::is_over(const algorithms::StreamCommand& command) const noexcept {
  const Word arrived = transport::StreamLinks::counting(Word::arrived, is_captured_);
  const Word freed = transport::StreamLinks::counting(Word::freed, is_captured_);
  switch (command.kind) {
    case Kind::wait_arrival:
      return links_.value(arrived, command.peer) >= command.value;
    case Kind::wait_credit:
      return links_.value(freed, command.peer) >= command.value;
    case Kind::signal_arrival:
      return links_.value_at_peer(arrived, command.peer) >= command.value;
    case Kind::signal_credit:
      return links_.value_at_peer(freed, command.peer) >= command.value;
    default:
      return true;
  }
}

std::vector<algorithms::StreamCommand>::const_iterator StreamProgress::next() const noexcept {
  return std::ranges::find_if(commands_, [this](const auto& command) { return !is_over(command); });
}

bool StreamProgress::awaits(int peer) const noexcept {
  const auto at = next();
  if (at == commands_.end()) return staged_.links && staged_.links->has_unsent(peer);
  return is_wait(*at) && at->peer == peer;
}

StreamPart::Steps StreamProgress::steps() const noexcept {
  return {static_cast<std::uint32_t>(next() - commands_.begin()), static_cast<std::uint32_t>(commands_.size())};
}

std::string StreamProgress::how_far() const {
  const auto arrivals = [](auto begin, auto end) {
    return std::count_if(begin, end, [](const auto& command) { return command.kind == Kind::wait_arrival; });
  };
  const auto at = next();
  std::string text = fmt::format("{} of {} messages had arrived for this rank's stream",
                                 arrivals(commands_.begin(), at), arrivals(commands_.begin(), commands_.end()));
  if (at == commands_.end()) return text;
  if (is_wait(*at)) return fmt::format("{}, which waits for rank {}", text, at->peer);
  return text + ", which waits for no rank: its GPU has other work to do first, or is slow";
}

}  // namespace tutti::detail
