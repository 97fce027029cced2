#pragma once

#include <string>

#include "algorithms/plan.h"

namespace tutti::algorithms {

/// "send", "recv_reduce" ...
const char* name_of(Verb verb);
/// "input", "output", "scratch".
const char* name_of(Buffer buffer);

/// "output[3]" or "output[3..5]", both ends included.
std::string to_string(const Blocks& blocks);
/// A short name of a step: "send to 2", "recv_reduce from 1", "copy".
std::string label(const Step& step);
/// The effect of a step: "output[3] = input[3] op message from 2".
std::string describe(const Step& step);

constexpr bool sends(Verb verb) { return verb == Verb::send; }
constexpr bool receives(Verb verb) { return verb == Verb::recv || verb == Verb::recv_reduce; }
constexpr bool is_local(Verb verb) { return verb == Verb::copy || verb == Verb::reduce; }
constexpr bool combines(Verb verb) { return verb == Verb::recv_reduce || verb == Verb::reduce; }
constexpr bool writes_dst(Verb verb) { return verb != Verb::send; }
constexpr bool reads_left(Verb verb) { return verb != Verb::recv; }
constexpr bool reads_right(Verb verb) { return verb == Verb::reduce; }

}  // namespace tutti::algorithms
