#pragma once

#include <cstdint>

#include "lib/engine/engine_interfaces.h"

namespace tutti::detail {

struct Status;

/// A user of a group, with a channel of its own: its collectives, or its messages. This is what the group asks of it
/// when something fails or takes long. On the thread that owns the engine.
class GroupUser : public ChannelUser {
 public:
  virtual bool busy() const noexcept = 0;
  /// Number of the last call that has begun; 0: its calls have no numbers.
  virtual std::uint64_t last_number() const noexcept { return 0; }
  /// Ends all running operations with `reason`.
  virtual void fail_all(const Error& reason) noexcept = 0;
  /// The channel is about to end, and nothing is running.
  virtual void close() noexcept {}
  /// Describes call `number`, if calls have numbers.
  virtual void describe_call(std::uint64_t /*number*/, Status& /*status*/) const {}
  /// Which of the running calls describe_wait() considers.
  enum class Which : std::uint8_t { waited_for, all };
  /// Describes the call in which this rank waits. False: nothing is running. `waited_for`: if a caller waits for some
  /// call, the others do not count.
  virtual bool describe_wait(Status& status, Which which) const = 0;

 protected:
  ~GroupUser() = default;
};

}  // namespace tutti::detail
