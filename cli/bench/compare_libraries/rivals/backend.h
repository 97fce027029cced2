#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/measure/workload.h"

namespace tutti::cli::measure {

/// A call that is ready to be repeated, and what must happen, untimed, for libraries that work in memory of their own.
struct Prepared {
  std::function<void()> call;
  std::function<void()> after_fill = [] {};
  std::function<void()> before_check = [] {};
};

/// One library, joined by this process as one of its ranks. Each program links exactly one.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Threads that the library runs in each process, the caller's among them.
  virtual int threads() const { return 1; }
  /// Lets the library go on with what it has begun; for those that do nothing unless called.
  virtual std::function<void()> progress() { return {}; }
  /// The buffers outlive what is returned. All ranks call it alike; throws std::exception for what the library or the
  /// setting does not have.
  virtual Prepared prepare(const Task& task, float* input, float* output) = 0;
  /// Leaves the other ranks in good order; it may never return, everything being printed.
  virtual void leave() = 0;
};

struct Joining {
  std::string setting;  ///< how the library is to be used, by its name in the comparison
  std::string folder;   ///< where ranks of one job may leave files for each other
};
std::unique_ptr<Backend> join(const Joining& how);

}  // namespace tutti::cli::measure
