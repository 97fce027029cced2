#pragma once

#include <chrono>
#include <span>
#include <string_view>

#include "lib/engine/pending.h"
#include "lib/engine/wait_escalation.h"

namespace tutti::detail {

class Group;

/// A running call of a group, a collective or a message, and its wait for the other ranks: while that takes long, it is
/// time now and then to ask them, and to give up at the deadline.
class GroupCall : public Pending {
 public:
  Group& group() const { return *group_; }

  void expire() noexcept final;
  void departed(std::span<const int> ranks) noexcept final;
  void abort(std::string_view reason) noexcept final;

 protected:
  using Pending::Pending;
  /// Before the call is submitted.
  void belongs_to(Group& group) noexcept { group_ = &group; }
  /// The call starts. `timeout`: after which it gives up.
  void begin_wait(Clock::time_point now, std::chrono::milliseconds timeout) noexcept;
  /// The wait takes long, and the group does not fail yet.
  virtual void waits_long(WaitEscalation::Act act) noexcept = 0;

 private:
  Group* group_ = nullptr;
  WaitEscalation escalation_;
};

}  // namespace tutti::detail
