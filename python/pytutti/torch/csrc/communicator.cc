#include "communicator.h"

#include <unistd.h>

#include <utility>

#include "errors.h"

namespace tutti_torch {
namespace {

std::atomic<bool> end_has_begun{false};
thread_local bool ends_process = false;

}  // namespace

void begin_end_of_process() noexcept {
  ends_process = true;
  end_has_begun = true;
}

bool process_ends() noexcept { return end_has_begun.load(std::memory_order_relaxed); }

void stay_if_process_ends() noexcept {
  if (!process_ends() || ends_process) [[likely]]
    return;
  for (;;) ::pause();
}

Communicator::Communicator(tutti_comm* comm, std::string name)
    : comm_(comm), name_(std::move(name)), process_(::getpid()) {}

void Communicator::close() noexcept {
  if (closed_.exchange(true)) return;
  if (process_ != ::getpid()) return;  // a child of fork(): threads that used it are not there to leave
  std::uint32_t users = users_.load();
  if (users > 0) tutti_comm_abort(comm_, "its process group was shut down with a call under way");
  if (is_used_by_this_thread()) {  // so it cannot wait until nobody uses it, and the last one sees this
    last_frees_ = true;
    return;
  }
  for (; users > 0; users = users_.load()) users_.wait(users);
  tutti_comm_free(comm_);
}

std::exception_ptr Communicator::await_streams(std::chrono::milliseconds limit) const noexcept {
  const bool is_idle = !closed_ && process_ == ::getpid() && users_.load() == 0;
  return is_idle && !process_ends() ? stream_waits_->wait(limit) : nullptr;
}

bool Communicator::is_used_by_this_thread() const noexcept {
  for (const Use* use = Use::innermost_; use != nullptr; use = use->outer_)
    if (&use->owner_ == this) return true;
  return false;
}

void Communicator::last_has_left() noexcept {
  users_.notify_all();
  if (last_frees_.exchange(false)) tutti_comm_free(comm_);
}

void Communicator::abort(const std::string& reason) {
  const Use use{*this};
  check(tutti_comm_abort(use.get(), reason.c_str()));
}

thread_local constinit Communicator::Use* Communicator::Use::innermost_ = nullptr;

void Communicator::Use::refuse() {
  leave();
  fail_with("tutti: process group \"" + owner_.name_ +
            "\" was shut down: make a new one with init_process_group() or new_group()");
}

}  // namespace tutti_torch
