#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/stream_program.h"

namespace tutti::algorithms {

/// Commands that follow each other in a stream, and that a person sees as one: those of a step of the plan, in one
/// round, or of a part of a call that is no step.
struct StreamStep {
  enum class Kind : std::uint8_t {
    send,
    receive,
    receive_reduce,
    copy,
    reduce,          ///< any kernel
    send_credit,     ///< what runs tasks on a peer's memory tells it that they are done,
    receive_credit,  ///< and the peer waits for that
  };
  Kind kind = Kind::copy;
  std::size_t begin = 0;  ///< in StreamCommands::all
  std::size_t end = 0;
  bool waits = false;  ///< the first command is a wait
  int peer = -1;       ///< of a message
  StepId step = no_step;
  std::uint64_t number = 0;  ///< of a message on its link, the same at both ends

  bool is_message() const { return kind != Kind::copy && kind != Kind::reduce; }
};

/// In their order.
std::vector<StreamStep> steps_of(const StreamCommands& commands);

}  // namespace tutti::algorithms
