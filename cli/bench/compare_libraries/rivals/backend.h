#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/measure/workload.h"

namespace tutti::cli::measure {

/// A prepared call, and the untimed work around it for libraries that use memory of their own.
struct Prepared {
  std::function<void()> call;
  std::function<void()> after_fill = [] {};
  std::function<void()> before_check = [] {};
};

/// One library, with this process as one of its ranks. Each program links exactly one.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Threads of the library in each process, including the caller's.
  virtual int threads() const { return 1; }
  /// Lets the library make progress; for libraries that do nothing unless called.
  virtual std::function<void()> progress() { return {}; }
  /// The buffers must outlive the returned object. All ranks call it alike. Throws std::exception if the library or the
  /// setting does not support the task.
  virtual Prepared prepare(const Task& task, float* input, float* output) = 0;
  /// Leaves the job in good order. It need not return, since everything has been printed.
  virtual void leave() = 0;
};

struct Joining {
  std::string setting;  ///< how the library is to be used, by its name in the comparison
  std::string folder;   ///< where ranks of one job may leave files for each other
  bool on_gpu = false;  ///< calls are on memory of GPUs; those of prepare() are of the host, and copied
};
std::unique_ptr<Backend> join(const Joining& how);
/// The library's name and version in one line, as it tells them itself. Works before join().
std::string version();

}  // namespace tutti::cli::measure
