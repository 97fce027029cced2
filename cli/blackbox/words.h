#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cli/blackbox/blackbox.h"

namespace tutti::cli {

// Words that text, JSON and comparison share.

bool is_message(const black_box::CallRecord& call);
std::string type_of(const black_box::CallRecord& call);
/// "done", "failed", "not done"
const char* name_of_state(black_box::State state);
/// A time of CLOCK_MONOTONIC in the box as CLOCK_REALTIME; nanoseconds.
std::int64_t wall_clock(const black_box::CallRecord& call, std::int64_t time);
/// How long it took is known, or how long it has taken so far: not of a call in which a process was that has gone.
bool is_timed(const black_box::OperationRecord& entry, const black_box::Snapshot& box);
/// How long it took, or has taken so far; where that is not known, at least.
double seconds_in(const black_box::OperationRecord& entry, const black_box::Snapshot& box);
/// "world", or "group 2 of 3 ranks": the second group that this rank made besides the world.
std::string name_of_group(const black_box::OperationRecord& entry, const black_box::Snapshot& box);
std::span<const black_box::OperationRecord> newest(const black_box::Snapshot& box, std::size_t most);

}  // namespace tutti::cli
