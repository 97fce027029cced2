#pragma once

#include <tutti/c.h>

#include <atomic>
#include <cstdint>
#include <string>

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
  /// do nothing.
  void close() noexcept;
  /// Makes all calls fail, here and on the other ranks, until it is closed.
  void abort(const std::string& reason);

  /// While it lives, the communicator is not freed. Throws if it is closed.
  class Use {
   public:
    explicit Use(Communicator& owner) : owner_(owner) {
      owner_.users_.fetch_add(1);
      if (owner_.closed_) [[unlikely]]
        refuse();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { leave(); }
    tutti_comm* get() const { return owner_.comm_; }

   private:
    void leave() noexcept {
      if (owner_.users_.fetch_sub(1) == 1 && owner_.closed_) [[unlikely]]
        owner_.users_.notify_all();
      stay_if_process_ends();
    }
    [[noreturn]] void refuse();

    Communicator& owner_;
  };

 private:
  tutti_comm* comm_;
  const std::string name_;
  const int process_;
  std::atomic<std::uint32_t> users_{0};
  std::atomic<bool> closed_{false};
};

}  // namespace tutti_torch
