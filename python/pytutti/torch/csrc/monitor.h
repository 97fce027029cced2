#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "communicator.h"

namespace tutti_torch {

/// The monitored barriers of a group.
class Monitor {
 public:
  /// All ranks of a group make theirs with it, and not with a first barrier, to which only some may come: then they
  /// would count their later groups differently.
  Monitor(Communicator& group, int size);

  /// Returns when all ranks have called; throws if one has not within the timeout. `wait_for_all`: names all that have
  /// not, and not only the first.
  void barrier(int rank, int size, std::chrono::milliseconds timeout, bool wait_for_all);
  void close() noexcept { communicator_.close(); }

 private:
  Communicator communicator_;
  std::atomic<std::uint32_t> barriers_{0};
};

}  // namespace tutti_torch
