#include "lib/gpu/device_call.h"

#include <fmt/format.h>

#include <utility>

#include "lib/base/gpu/memory.h"
#include "lib/engine/engine.h"

namespace tutti::detail {

using namespace std::chrono_literals;

DeviceCall::DeviceCall(std::shared_ptr<Engine> engine, std::shared_ptr<const Staging> staging, Pending& operation,
                       std::function<void()> begin, std::chrono::milliseconds timeout, std::string name)
    : Pending(std::move(engine)),
      staging_(std::move(staging)),
      operation_(operation),
      begin_(std::move(begin)),
      timeout_(timeout),
      name_(std::move(name)) {
  asynchronous = true;
}

DeviceCall::~DeviceCall() { operation_.release(); }

/// When the stream gets there. It holds a reference until then.
void DeviceCall::call_in_engine(cuda::Commands& commands, void (DeviceCall::*step)()) {
  retain();
  try {
    // This object may be gone before post() returns, and was perhaps the last one to own the engine.
    commands.call([this, step, engine = engine_] {
      engine->post([this, step] {
        if (!dropped_) (this->*step)();
        release();
      });
    });
  } catch (...) {
    release();
    throw;
  }
}

void DeviceCall::enqueue(cuda::Commands& commands, const std::function<void()>& submit) {
  const auto mark = [&](std::size_t i) {
    if (traced_) commands.record(traced_->marks()[i].event);
  };
  if (traced_) traced_->enters();
  try {
    mark(0);
    staging_->copy_input(commands);
    mark(1);
    call_in_engine(commands, &DeviceCall::input_is_there);
  } catch (...) {
    dropped_ = true;
    throw;
  }
  submit();
  if (!staging_->stream_waits()) return;
  commands.wait(cuda::address_of(&staging_->word()), 1);
  commands.flush();
  mark(2);
  staging_->copy_output(commands);
  mark(3);
  call_in_engine(commands, &DeviceCall::output_is_there);
}

/// The operation may have ended already. This call cannot, before the engine has it.
void DeviceCall::start() noexcept {
  engine_->look_at(*this, deadline_after(timeout_));
  retain();
  operation_.then([this](const Error* error) {
    operation_ended(error);
    release();
  });
}

void DeviceCall::input_is_there() {
  if (!operation_.over()) begin_();
}

void DeviceCall::operation_ended(const Error* error) {
  let_stream_go_on();
  if ((error || !staging_->stream_waits()) && !over()) engine_->finished(*this, error);
}

void DeviceCall::output_is_there() {
  if (traced_) traced_->leaves(operation_.error() != nullptr);
  if (over()) return;
  status = operation_.status;
  engine_->finished(*this);
}

/// The operation has a deadline of its own.
void DeviceCall::expire() noexcept {
  if (!operation_.done()) return engine_->look_at(*this, deadline_after(1000ms));
  const Error error{
      ErrorCode::timeout,
      fmt::format("{}: the result was there, but did not reach device memory within {:.1f} s: the GPU has "
                  "failed, or other streams keep it waiting",
                  name_, std::chrono::duration<double>(timeout_).count())};
  engine_->finished(*this, &error);
}

}  // namespace tutti::detail
