// Plans in words, for the checker's messages and for people who read plans.

#include "algorithms/describe.h"

namespace tutti::algorithms {

const char* name_of(Verb verb) {
  switch (verb) {
    case Verb::send:
      return "send";
    case Verb::recv:
      return "recv";
    case Verb::recv_reduce:
      return "recv_reduce";
    case Verb::copy:
      return "copy";
    case Verb::reduce:
      return "reduce";
  }
  return "unknown verb";
}

const char* name_of(Buffer buffer) {
  switch (buffer) {
    case Buffer::input:
      return "input";
    case Buffer::output:
      return "output";
    case Buffer::scratch:
      return "scratch";
  }
  return "unknown buffer";
}

std::string to_string(const Blocks& blocks) {
  std::string text = std::string(name_of(blocks.buffer)) + "[" + std::to_string(blocks.first);
  if (blocks.count != 1) text += ".." + std::to_string(blocks.first + blocks.count - 1);
  return text + "]";
}

std::string label(const Step& step) {
  const std::string verb = name_of(step.verb);
  if (is_local(step.verb)) return verb;
  return verb + (sends(step.verb) ? " to " : " from ") + std::to_string(step.peer);
}

std::string describe(const Step& step) {
  const std::string peer = std::to_string(step.peer);
  switch (step.verb) {
    case Verb::send:
      return "send " + to_string(step.left) + " to " + peer;
    case Verb::recv:
      return to_string(step.dst) + " = message from " + peer;
    case Verb::recv_reduce:
      return to_string(step.dst) + " = " + to_string(step.left) + " op message from " + peer;
    case Verb::copy:
      return to_string(step.dst) + " = " + to_string(step.left);
    case Verb::reduce:
      return to_string(step.dst) + " = " + to_string(step.left) + " op " + to_string(step.right);
  }
  return "unknown verb";
}

}  // namespace tutti::algorithms
