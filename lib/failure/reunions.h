#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/failure/control_message.h"

namespace tutti::detail {

/// The ranks that go on without the lost ones.
struct Reunion {
  std::uint64_t group = 0;   ///< fresh, equal on all
  std::vector<int> members;  ///< global ranks, in the order of the old group
};

/// The reunions that this rank waits for, each until the coordinator has decided. Threading: any.
class Reunions {
 public:
  /// What is awaited from begin() on.
  struct Awaited {
    Report report;
    std::optional<Reunion> outcome;
    std::vector<int> missing;
    int told = -1;  // the coordinator that knows
  };

  std::shared_ptr<Awaited> begin(const Report& report);
  /// Until the coordinator has decided or `deadline`. Nothing: it has not.
  std::optional<Reunion> wait(const Awaited& awaited, std::chrono::steady_clock::time_point deadline);
  /// Those that `coordinator` has to be told of. It hears of each once: two decisions would make two groups.
  std::vector<Report> untold(int coordinator);
  /// What a coordinator says: the outcome, or which ranks are still missing.
  void decided(const ControlMessage& decision);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, std::shared_ptr<Awaited>> awaited_;  // by old group
};

}  // namespace tutti::detail
