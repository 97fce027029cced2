#pragma once

#include <tutti/c.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "stream_waits.h"

namespace tutti_torch {

/// The process ends, by this thread.
void begin_end_of_process() noexcept;
/// Whether one has said so.
bool process_ends() noexcept;
/// Keeps any other thread that comes back from a wait in a process that ends. When it asked for Python again, Python
/// would end it by pthread_exit(), in the midst of PyTorch's functions that must not throw: std::terminate().
void stay_if_process_ends() noexcept;

/// A tutti_comm that one thread may end while others call: it is freed when the last of them has left.
class Communicator {
 public:
  /// Takes it over. `name` is the group's, for errors.
  Communicator(tutti_comm* comm, std::string name);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() { close(); }

  /// Frees it. Calls and work that are still under way fail, here and on the other ranks. Later calls of this function
  /// do nothing. In a call of this thread's own, which is interrupted by a signal's handler, it is freed after that.
  void close() noexcept;
  /// To be called before close(): waits as StreamWaits does, unless calls are to be ended, or the process.
  std::exception_ptr await_streams(std::chrono::milliseconds limit) const noexcept;
  /// Makes all calls fail, here and on the other ranks, until it is closed.
  void abort(const std::string& reason);

  /// While it lives, the communicator is not freed. Throws if it is closed.
  class Use {
   public:
    explicit Use(Communicator& owner) : owner_(owner), outer_(innermost_) {
      innermost_ = this;
      owner_.users_.fetch_add(1);
      if (owner_.closed_) [[unlikely]]
        refuse();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { leave(); }
    tutti_comm* get() const { return owner_.comm_; }
    const std::shared_ptr<StreamWaits>& stream_waits() const { return owner_.stream_waits_; }

   private:
    friend class Communicator;

    void leave() noexcept {
      innermost_ = outer_;
      if (owner_.users_.fetch_sub(1) == 1 && owner_.closed_) [[unlikely]]
        owner_.last_has_left();
      stay_if_process_ends();
    }
    [[noreturn]] void refuse();

    static thread_local constinit Use* innermost_;

    Communicator& owner_;
    Use* const outer_;  // of this thread
  };

 private:
  bool is_used_by_this_thread() const noexcept;
  void last_has_left() noexcept;

  tutti_comm* comm_;
  const std::string name_;
  const int process_;
  const std::shared_ptr<StreamWaits> stream_waits_ = std::make_shared<StreamWaits>();
  std::atomic<std::uint32_t> users_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> last_frees_{false};
};

}  // namespace tutti_torch
