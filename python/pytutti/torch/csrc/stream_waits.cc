#include "stream_waits.h"

#include <chrono>
#include <thread>

#include "communicator.h"
#include "deadline.h"
#include "interrupts.h"

namespace tutti_torch {

void StreamWaits::add(const std::vector<tutti_work*>& works) {
  for (tutti_work* const work : works) {
    auto* const self = new std::shared_ptr<StreamWaits>{shared_from_this()};  // the group may be gone by then
    running_.fetch_add(1);
    const auto one_is_done = [](void* context) {
      const std::unique_ptr<std::shared_ptr<StreamWaits>> waits{static_cast<std::shared_ptr<StreamWaits>*>(context)};
      (*waits)->running_.fetch_sub(1);
    };
    if (tutti_work_then(work, one_is_done, self) != TUTTI_OK) one_is_done(self);  // out of memory
  }
}

std::exception_ptr StreamWaits::wait(std::chrono::milliseconds limit) const noexcept {
  using namespace std::chrono_literals;
  const auto until = deadline_after(limit);
  try {
    for (; running_.load() > 0 && Clock::now() < until; handle_signals()) std::this_thread::sleep_for(1ms);
  } catch (...) {
    return std::current_exception();
  }
  stay_if_process_ends();
  return nullptr;
}

}  // namespace tutti_torch
