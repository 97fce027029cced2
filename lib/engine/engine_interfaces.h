#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/transport.h"

namespace tutti::detail {

/// Receives what arrives on one channel: a communicator's collectives, or its point-to-point messages. Called on the
/// thread that owns the engine.
class ChannelUser {
 public:
  /// Whether the rank (global) is a member of the channel's group.
  virtual bool knows(int rank) const noexcept = 0;
  virtual transport::Acceptance arrived(transport::Link& from, const transport::Frame& frame) noexcept = 0;
  virtual void view(transport::Link& from, std::span<const std::byte> piece) noexcept = 0;
  virtual void received(transport::Link& from) noexcept = 0;
  virtual void sent(transport::Link& to, transport::Token token) noexcept = 0;
  virtual void failed(transport::Link& link, const Error& reason) noexcept = 0;

 protected:
  ~ChannelUser() = default;
};

class Operation;

/// Does a step of an operation that waits for nothing any more. `piece`: 0, or which later piece of a step that goes
/// on. Every step of every plan goes through here, so it is a plain function, which the collectives define.
void run_step(Operation& operation, std::uint32_t step, std::uint32_t piece) noexcept;

/// Fails while a transport is on the stack, and must clean up once none is.
class Failable {
 public:
  virtual void fail_now() noexcept = 0;

 protected:
  ~Failable() = default;
};

/// Makes progress without a transport. Called on the thread that owns the engine.
class Pollable {
 public:
  /// True when something happened.
  virtual bool progress() noexcept = 0;
  /// Needs no more calls until the next Engine::poll().
  virtual bool idle() const noexcept = 0;
  /// As Transport::prepare_sleep().
  virtual bool prepare_sleep() noexcept = 0;
  virtual void awake() noexcept = 0;

 protected:
  ~Pollable() = default;
};

}  // namespace tutti::detail
