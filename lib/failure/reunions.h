#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lib/failure/control_message.h"

namespace tutti::detail {

/// The ranks that go on without the lost ones, and their new group.
struct Reunion {
  std::uint64_t group = 0;   ///< id of the new group, equal on all
  std::vector<int> members;  ///< global ranks, in the order of the old group
};

/// The reunions for which this rank waits, each until the coordinator has decided. Threading: any.
class Reunions {
 public:
  /// A reunion that begin() has asked for.
  struct Awaited {
    Report report;  // `operation`: the number of the call
    std::optional<Reunion> outcome;
    std::vector<int> missing;
    bool interrupted = false;  // by the program
    int told = -1;             // the coordinator that has been told
  };

  /// Numbers the calls, so that the coordinator can tell which of them a rank has given up.
  /// If the coordinator decided when this rank had just given up, it gets that decision: the other ranks have theirs.
  std::shared_ptr<Awaited> begin(const Report& report);
  /// Waits until the coordinator has decided, until `deadline`, or until the program interrupts it. Nothing: it has not
  /// decided, and this rank has given up, which is to be told to the coordinator.
  std::optional<Reunion> wait(Awaited& awaited, std::chrono::steady_clock::time_point deadline);
  /// What is to be told to `coordinator`: which calls wait, and which do so no longer. It is told of each once, since
  /// two decisions would make two groups.
  std::vector<ControlMessage> untold(int coordinator);
  /// Handles the coordinator's message: the outcome, or which ranks are still missing. The outcome of a call that this
  /// rank has given up serves a later one that waits. True: that is to be told to the coordinator.
  bool decided(const ControlMessage& decision);

 private:
  static constexpr std::size_t most_late = 64;

  struct Withdrawn {
    int told;  // the coordinator that counts on this rank
    Report report;
  };
  /// False: no coordinator has been told of it.
  bool withdraw(const Awaited& awaited);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t calls_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Awaited>> awaited_;  // reunions by old group
  std::vector<Withdrawn> withdrawn_;                           // of which the coordinator does not know yet
  std::deque<std::pair<std::uint64_t, Reunion>> late_;  // decisions that no thread awaited, by old group, oldest first
};

}  // namespace tutti::detail
