#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/stream_steps.h"
#include "lib/base/gpu/commands.h"
#include "lib/gpu/device_clock.h"
#include "lib/gpu/stream_lowering.h"
#include "lib/observe/trace/recorder.h"
#include "transport/transport.h"

namespace tutti::detail {

class Engine;

/// Records for the trace what streams of GPUs do in the calls of one communicator. Timed events lie in the stream
/// between the commands of a call, and the next call after it, or the end of the communicator, asks the driver for
/// their times. The engine may not ask, since the driver might let no call in until streams have ended that need the
/// engine.
///
/// There is a fixed number of events, made before anything waits. Where they run out, and after the first steps of
/// a long call, the trace says how many steps are left out.
///
/// Threading: one thread at a time, where nothing else is said.
class StreamTrace {
 public:
  class Call {
   public:
    /// What to record while the call is enqueued.
    std::span<const StreamMark> marks() const { return marks_; }
    /// On the thread that owns the engine: the operation has its number.
    void begins(const transport::Frame& frame) noexcept;
    /// From now on it is put into its stream.
    void enters() noexcept { entered_ = trace::monotonic(); }
    /// Called by the stream behind the last mark. `is_worthless`: some wait may have ended for a failure.
    void leaves(bool is_worthless) noexcept;

   private:
    friend class StreamTrace;
    static constexpr std::size_t none = ~std::size_t{0};
    /// A step, with the marks at which it begins, need not wait any more, and ends.
    struct Timed {
      std::size_t begin = 0, middle = none, end = 0;
      trace::Record record{};
    };
    bool is_complete() const { return has_begun_.load() && has_left_.load(); }

    cuda::KnownContext context_;
    std::vector<StreamMark> marks_;
    std::vector<Timed> steps_;
    std::size_t left_out_ = 0;
    std::uint32_t missed_ = 0;  // calls before this one
    std::int64_t entered_ = 0;
    std::int64_t left_ = 0;
    bool is_worthless_ = false;
    transport::Frame frame_{};
    std::atomic<bool> has_begun_{false};
    std::atomic<bool> has_left_{false};
  };

  /// Whose calls they are.
  struct Owner {
    std::shared_ptr<Engine> engine{};
    trace::Recorder* recorder = nullptr;
    std::uint16_t group = trace::no_group;
    std::vector<int> members{};  ///< of the group, by rank
  };
  explicit StreamTrace(Owner owner) : owner_(std::move(owner)) {}

  /// Before a call in a context; does something before the first. `is_idle`: no call of the communicator is on its way,
  /// so that the clocks can be compared; else the calls themselves do that.
  void enter(const cuda::KnownContext& context, bool is_idle);
  /// A call with these commands. Null: there is no event left for it.
  std::shared_ptr<Call> add(const cuda::KnownContext& context, const algorithms::StreamCommands& commands,
                            const DeviceArithmetic& arithmetic);
  /// A call that a stream stages, which copies `input` bytes to the host and `output` back. It has four marks:
  /// before and after both copies.
  std::shared_ptr<Call> add_staged(const cuda::KnownContext& context, std::size_t input, std::size_t output);
  /// Records the calls that streams have passed.
  void collect();

 private:
  /// A context's events and clock.
  struct Place {
    std::vector<cuda::OwnEvent> events{};
    std::vector<cuda::Event> unused{};
    cuda::Event anchor = nullptr;  // the latest of known time; null: none is known
    double anchored = 0;           // that time
    DeviceClock clock{};
  };
  std::shared_ptr<Call> begin(const cuda::KnownContext& context, std::size_t least_events);
  void compare_clocks(const cuda::KnownContext& context, Place& place);
  void choose(const std::vector<algorithms::StreamStep>& steps, Call& call, Place& place) const;
  trace::Record record_of(const algorithms::StreamStep& step, const algorithms::StreamCommands& commands,
                          const DeviceArithmetic& arithmetic) const;
  void read(const Call& call, std::vector<trace::Record>& records);

  const Owner owner_;
  std::map<cuda::KnownContext, Place> places_;
  std::deque<std::shared_ptr<Call>> calls_;  // in the order in which streams pass them
  std::uint32_t missed_ = 0;
};

}  // namespace tutti::detail
