#include "communicator.h"

#include "errors.h"

namespace tutti_torch {

void Communicator::close() noexcept {
  if (closed_.exchange(true)) return;
  std::uint32_t users = users_.load();
  if (users > 0) tutti_comm_abort(comm_, "its process group was shut down with a call under way");
  for (; users > 0; users = users_.load()) users_.wait(users);
  tutti_comm_free(comm_);
}

void Communicator::abort(const std::string& reason) {
  const Use use{*this};
  check(tutti_comm_abort(use.get(), reason.c_str()));
}

void Communicator::Use::refuse() {
  leave();
  fail_with("tutti: process group \"" + owner_.name_ +
            "\" was shut down: make a new one with init_process_group() or new_group()");
}

}  // namespace tutti_torch
