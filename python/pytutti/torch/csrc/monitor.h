#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include "communicator.h"

namespace tutti_torch {

/// The monitored barriers of a group.
class Monitor {
 public:
  /// Returns when all ranks have called; throws if one has not within the timeout. `wait_for_all`: names all that have
  /// not, and not only the first.
  void barrier(Communicator& parent, int rank, int size, std::chrono::milliseconds timeout, bool wait_for_all);
  void close() noexcept;

 private:
  /// Is made when it is needed first.
  Communicator& communicator(Communicator& parent, int size);

  std::mutex mutex_;
  std::unique_ptr<Communicator> communicator_;
  std::atomic<std::uint32_t> barriers_{0};
};

}  // namespace tutti_torch
