#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "lib/base/gpu/commands.h"
#include "lib/engine/pending.h"
#include "lib/gpu/staging.h"
#include "lib/gpu/stream_trace.h"

namespace tutti::detail {

/// A call on device memory that was started. Its stream copies the input to pinned memory, tells the engine, waits, and
/// copies the output back, all enqueued at the call. The engine runs an ordinary operation on the pinned memory in
/// between, and ends the stream's wait by a store. Nobody calls the driver meanwhile. For a message that is sent the
/// stream copies the input, and goes on.
///
/// Ownership: holds the operation and the pinned memory. The stream holds a reference until it has passed the call.
class DeviceCall final : public Pending {
 public:
  /// `operation`: of staging->request(); its reference becomes this object's. It is over when its communicator ends.
  /// `begin` lets it begin when the input is there, on the thread that owns the engine, unless it is over: it may refer
  /// to the communicator, but must not own it, since it runs where the driver must not be called. `name`: for errors.
  DeviceCall(std::shared_ptr<Engine> engine, std::shared_ptr<const Staging> staging, Pending& operation,
             std::function<void()> begin, std::chrono::milliseconds timeout, std::string name);
  ~DeviceCall() override;
  /// Before enqueue(): what to record for the trace. Null: nothing.
  void trace_as(std::shared_ptr<StreamTrace::Call> traced) { traced_ = std::move(traced); }

  /// Puts the call into its stream. `submit` hands this call and the operation to the engine, before the first command
  /// that waits: from there on the driver may keep this thread, for another one that frees memory and waits for all
  /// that is in the streams, and that ends only with the operation. After an error, which it throws, nothing stays in
  /// the stream that waits, but a copy to or from the pinned memory may.
  void enqueue(cuda::Commands& commands, const std::function<void()>& submit);

  void start() noexcept override;
  void expire() noexcept override;
  void departed(std::span<const int>) noexcept override {}
  void abort(std::string_view reason) noexcept override {
    if (!operation_.done()) operation_.abort(reason);  // else its communicator may have ended
  }

 private:
  void recycle() noexcept override { delete this; }
  void call_in_engine(cuda::Commands& commands, void (DeviceCall::*step)());
  void input_is_there();
  void output_is_there();
  void operation_ended(const Error* error);
  void let_stream_go_on() noexcept { staging_->word().store(1, std::memory_order_release); }

  const std::shared_ptr<const Staging> staging_;
  Pending& operation_;
  const std::function<void()> begin_;
  const std::chrono::milliseconds timeout_;
  const std::string name_;
  std::shared_ptr<StreamTrace::Call> traced_;
  std::atomic<bool> dropped_{false};  // it was not enqueued whole
};

}  // namespace tutti::detail
