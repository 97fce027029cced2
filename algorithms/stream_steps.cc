#include "algorithms/stream_steps.h"

#include <span>

namespace tutti::algorithms {
namespace {

using Command = StreamCommand::Kind;
using StepKind = StreamStep::Kind;

bool is_signal(Command kind) { return kind == Command::signal_arrival || kind == Command::signal_credit; }
bool is_wait(Command kind) { return kind == Command::wait_arrival || kind == Command::wait_credit; }

/// Whether `next` belongs to the commands that end with `last`. A message ends with its signal; the same step of the
/// next round may follow. Outside of steps, a wait for a slot belongs to the message that gets it.
bool goes_on(const StreamCommand& last, const StreamCommand& next) {
  if (last.step != next.step || is_signal(last.kind)) return false;
  if (last.step != no_step) return true;
  return last.kind == Command::wait_credit && next.kind == Command::signal_arrival && last.peer == next.peer;
}

/// What a step with these commands is.
StreamStep step_of(std::span<const StreamCommand> commands) {
  const StreamCommand& first = commands.front();
  StreamStep made{.waits = is_wait(first.kind), .step = first.step};
  bool folds = false;
  for (const StreamCommand& command : commands) folds = folds || command.kind == Command::fold;
  const StreamCommand& last = commands.back();
  const auto message = [&](StepKind kind, const StreamCommand& command) {
    made.kind = kind;
    made.peer = command.peer;
    made.number = command.value;
    return made;
  };
  if (last.kind == Command::signal_arrival) return message(StepKind::send, last);
  if (first.kind == Command::wait_arrival) return message(folds ? StepKind::receive_reduce : StepKind::receive, first);
  if (last.kind == Command::signal_credit) return message(StepKind::send_credit, last);
  if (first.kind == Command::wait_credit) return message(StepKind::receive_credit, first);
  made.kind = first.kind == Command::copy ? StepKind::copy : StepKind::reduce;
  return made;
}

}  // namespace

std::vector<StreamStep> steps_of(const StreamCommands& commands) {
  std::vector<StreamStep> steps;
  for (std::size_t begin = 0, end = 0; begin < commands.all.size(); begin = end) {
    for (end = begin + 1; end < commands.all.size() && goes_on(commands.all[end - 1], commands.all[end]);) ++end;
    StreamStep& step = steps.emplace_back(step_of(std::span{commands.all}.subspan(begin, end - begin)));
    step.begin = begin;
    step.end = end;
  }
  return steps;
}

}  // namespace tutti::algorithms
