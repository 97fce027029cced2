#include "lib/api/stream_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;
using Word = transport::StreamLinks::Word;

constexpr auto pause = 2ms;
/// A stream whose waits have ended runs to its end soon, unless work of the program's holds it up.
constexpr auto longest_drain = 10s;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

/// What the engine does after a failure.
class StreamRelease final : public Pending {
 public:
  StreamRelease(std::shared_ptr<Engine> engine, std::shared_ptr<StreamFlight> flight)
      : Pending(std::move(engine)), flight_(std::move(flight)), end_(Clock::now() + longest_drain) {
    asynchronous = true;
  }
  void start() noexcept override { expire(); }
  void expire() noexcept override {
    flight_->end_waits();
    if (!flight_->has_calls() || Clock::now() >= end_) return engine_->finished(*this);
    engine_->look_at(*this, Clock::now() + pause);
  }
  void departed(std::span<const int>) noexcept override {}
  void abort(std::string_view) noexcept override {}

 private:
  void recycle() noexcept override { delete this; }

  const std::shared_ptr<StreamFlight> flight_;
  const Clock::time_point end_;
};

void StreamFlight::release(const std::shared_ptr<Engine>& engine) {
  if (is_released_.exchange(true)) return;
  auto& release = *new StreamRelease{engine, shared_from_this()};
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
  for (const auto end = Clock::now() + longest_drain; has_calls(); std::this_thread::sleep_for(pause)) {
    if (is_broken_ || Clock::now() >= end) return false;
    if (is_released_) end_waits();
  }
  return !is_broken_;
}

void StreamFlight::forget_links() noexcept {
  const std::lock_guard lock{mutex_};
  links_ = nullptr;
}

bool StreamMessages::awaits(int peer) const noexcept {
  const std::uint64_t slots = links_.form().slots;
  const std::uint64_t sent = after_.sent[at(peer)];
  const bool takes_slots = sent > before_.sent[at(peer)] && sent > slots;
  return after_.received[at(peer)] > links_.value(Word::arrived, peer) ||
         (takes_slots && sent - slots > links_.value(Word::freed, peer));
}

std::string StreamMessages::how_far() const {
  std::uint64_t all = 0, here = 0;
  for (std::size_t peer = 0; peer < after_.received.size(); ++peer) {
    const std::uint64_t before = before_.received[peer], after = after_.received[peer];
    all += after - before;
    here += std::clamp(links_.value(Word::arrived, static_cast<int>(peer)), before, after) - before;
  }
  return fmt::format("{} of {} messages had arrived on this rank's GPU", here, all);
}

}  // namespace tutti::detail
