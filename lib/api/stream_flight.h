#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "algorithms/stream_program.h"
#include "lib/api/staged_links.h"
#include "lib/collective/operation.h"
#include "lib/engine/engine.h"
#include "lib/gpu/device_watch.h"
#include "lib/gpu/stream_trace.h"
#include "transport/cuda_ipc/stream_links.h"

namespace tutti::detail {

/// A stream whose waits have ended runs to its end soon, unless work of the program's holds it up.
inline constexpr std::chrono::seconds longest_drain{10};
inline constexpr std::chrono::milliseconds drain_pause{2};  ///< before the waits are ended once more

/// The calls of a communicator that streams have not passed. It owns nothing of the driver's: a stream drops it where
/// the driver must not be called. Threading: any thread.
class StreamFlight : public std::enable_shared_from_this<StreamFlight> {
 public:
  /// `links` are used until forget_links().
  explicit StreamFlight(transport::StreamLinks& links) : links_(&links) {}

  void call_begins() noexcept { calls_.fetch_add(1); }
  void call_ends() noexcept { calls_.fetch_sub(1); }
  bool has_calls() const noexcept { return calls_ > 0; }
  /// A call is in its stream in part only, and will not say when the stream has passed it.
  void call_breaks() noexcept { is_broken_.store(true); }
  /// The GPU has failed, so that no stream will pass a call.
  void device_fails() noexcept {
    is_broken_.store(true);
    calls_.store(0);
  }

  /// After a failure there are no more calls. Ends the waits of this rank, again and again until the streams have
  /// passed all calls, since other ranks may still write to the words. The engine does that.
  void release(const std::shared_ptr<Engine>& engine);
  /// For calls that begin after that, or after the end of the communicator, in graphs that the program has launched
  /// nevertheless. Owner of the engine.
  void release_again(const std::shared_ptr<Engine>& engine, std::function<void()> end_waits);
  bool is_released() const noexcept { return is_released_.load(); }
  void end_waits() noexcept;
  /// Whether streams may have passed calls without all data, since a rank has failed.
  bool is_worthless() noexcept;

  /// Ends the waits of all calls, and waits until the streams have passed them. False: they have not in time, and may
  /// go on using all of it.
  bool drain() noexcept;
  void forget_links() noexcept;

 private:
  friend class StreamRelease;

  std::atomic<int> calls_{0};
  std::atomic<bool> is_broken_{false};
  std::atomic<bool> is_released_{false};
  std::mutex mutex_;
  transport::StreamLinks* links_;
};

/// How far a stream has come in a call, by the waits and signals among its commands: it runs them in their order, and
/// the words show which of them it can have run.
class StreamProgress final : public StreamPart {
 public:
  /// What goes over staged links. Null: all ranks share memory.
  struct Staged {
    StagedLinks* links = nullptr;
    std::shared_ptr<StagedLinks::Call> call{};
  };
  /// All but `commands` exist as long as calls of the communicator run. `passed`: an event on the GPU of the call.
  /// `traced`: null if no trace is recorded. `is_captured`: the call is in a graph.
  StreamProgress(const transport::StreamLinks& links, Staged staged, const algorithms::StreamCommands& commands,
                 DeviceWatch& watch, const cuda::OwnEvent& passed, std::shared_ptr<StreamTrace::Call> traced,
                 bool is_captured = false);

  void begins(const transport::Frame& frame) const noexcept override {
    if (staged_.links) staged_.links->begin(staged_.call, frame);
    if (traced_) traced_->begins(frame);
  }
  bool awaits(int peer) const noexcept override;
  Steps steps() const noexcept override;
  void look_at_device() const noexcept override { watch_.look_at(passed_); }
  std::string how_far() const override;

 private:
  bool is_over(const algorithms::StreamCommand& command) const noexcept;
  /// The first wait or signal that the stream has not passed.
  std::vector<algorithms::StreamCommand>::const_iterator next() const noexcept;

  const transport::StreamLinks& links_;
  const Staged staged_;
  std::vector<algorithms::StreamCommand> commands_;
  DeviceWatch& watch_;
  const cuda::OwnEvent& passed_;
  const std::shared_ptr<StreamTrace::Call> traced_;
  const bool is_captured_;
};

}  // namespace tutti::detail
