#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/engine/fifo.h"

namespace tutti::detail {

class Operation;

/// The steps of operations that wait for nothing any more, in the order in which they became so. On the thread that
/// owns the engine.
class StepQueue {
 public:
  void ready(Operation& operation, std::uint32_t step) { ready_.push({&operation, step, 0}); }
  /// Does that piece of the step in the next pass, so that transports get their turn before.
  void goes_on(Operation& operation, std::uint32_t step, std::uint32_t piece) {
    going_on_.push({&operation, step, piece});
  }
  /// Drops the operation's steps, also from within run().
  void forget(const Operation& operation) noexcept {
    for (Fifo<Step>* const steps : {&ready_, &going_on_})
      for (std::size_t i = 0; i < steps->size(); ++i)
        if ((*steps)[i].operation == &operation) (*steps)[i].operation = nullptr;
  }

  bool empty() const { return ready_.empty() && going_on_.empty(); }
  /// What was put off until now is ready.
  void next_pass() {
    for (std::size_t steps = going_on_.size(); steps > 0; --steps) ready_.push(going_on_.pop());
  }
  /// Calls `run_step(operation, step, piece)` for all that are ready, and for those that become so meanwhile.
  template <class RunStep>
  void run(const RunStep& run_step) {
    while (!ready_.empty()) {
      const Step next = ready_.pop();
      if (next.operation) run_step(*next.operation, next.step, next.piece);
    }
  }

 private:
  struct Step {
    Operation* operation;
    std::uint32_t step;
    std::uint32_t piece;
  };

  Fifo<Step> ready_;
  Fifo<Step> going_on_;  // ready in the next pass
};

}  // namespace tutti::detail
