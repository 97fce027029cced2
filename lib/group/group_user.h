#pragma once

#include <cstdint>

#include "lib/engine/engine_interfaces.h"

namespace tutti::detail {

struct Status;

/// One of the two that work for a group, each on a channel of its own: its collectives, or its messages. This is what
/// the group needs of them when something fails, or takes long. On the thread that owns the engine.
class GroupUser : public ChannelUser {
 public:
  virtual bool busy() const noexcept = 0;
  /// The number of the last call that has begun; 0: its calls have none.
  virtual std::uint64_t last_number() const noexcept { return 0; }
  /// Ends all that is on its way.
  virtual void fail_all(const Error& reason) noexcept = 0;
  /// The channel goes; nothing is on its way.
  virtual void close() noexcept {}
  /// What this rank can say about call `number`, where calls have numbers.
  virtual void describe_call(std::uint64_t /*number*/, Status& /*status*/) const {}
  /// Which of the calls on their way describe_wait() tells of.
  enum class Which : std::uint8_t { waited_for, all };
  /// What this rank waits in; false: nothing is on its way. `waited_for`: where a caller waits for one, the others do
  /// not count.
  virtual bool describe_wait(Status& status, Which which) const = 0;

 protected:
  ~GroupUser() = default;
};

}  // namespace tutti::detail
