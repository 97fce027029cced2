#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <semaphore>

namespace tutti::testing {

/// What one thread waits for and another one says, without messages.
class Signal {
 public:
  void give() { semaphore_.release(); }
  /// False: it has not come for half a minute.
  bool comes() { return semaphore_.try_acquire_for(std::chrono::seconds{30}); }
  void await() { REQUIRE(comes()); }

 private:
  std::counting_semaphore<> semaphore_{0};
};

}  // namespace tutti::testing
