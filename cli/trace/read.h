#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tutti/types.h"

namespace tutti::cli {

/// From one moment to another, in nanoseconds of the trace's clock.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t length() const { return end > begin ? end - begin : 0; }
};

/// The same time in spans that do not touch, in time order.
std::vector<Span> apart(std::vector<Span> spans);

/// One message of a call, or what a rank reads of another's contribution on a board.
struct TracedMessage {
  int from = 0;
  int to = 0;
  std::uint64_t bytes = 0;
  std::uint32_t step = 0;     ///< its send in the plan of `from`; over a board: the round
  std::int64_t given = 0;     ///< its sender let it go
  std::int64_t sent = 0;      ///< and had no more of it to hand to the link
  std::int64_t expected = 0;  ///< its receiver began to look for it
  std::int64_t arrived = 0;   ///< and saw it
  std::int64_t received = 0;  ///< and had it in its place
};

/// One collective, as all its ranks saw it.
struct TracedCall {
  std::string name;             ///< "all_reduce #5"
  std::uint64_t operation = 0;  ///< 5: its number in its group
  std::string algorithm;
  std::string group;
  Collective collective{};
  std::uint64_t bytes = 0;
  int root = 0;  ///< in its group
  bool variable = false;
  std::map<int, Span> ranks;  ///< when each rank was in it
  std::vector<TracedMessage> messages;
  /// Over a board: all that ranks read of others, round by round. `messages` has those whose writers came last.
  std::vector<TracedMessage> readings;
  std::map<int, std::vector<Span>> busy;  ///< by rank: its thread worked on it
  std::map<int, std::vector<Span>> away;  ///< by rank: its thread did not look at its links; apart, in time order

  std::int64_t begin() const {
    std::int64_t first = ranks.begin()->second.begin;
    for (const auto& [rank, span] : ranks) first = std::min(first, span.begin);
    return first;
  }
  std::int64_t end() const {
    std::int64_t last = ranks.begin()->second.end;
    for (const auto& [rank, span] : ranks) last = std::max(last, span.end);
    return last;
  }
};

struct TracedRank {
  std::string host;
  std::uint64_t lost = 0;         ///< records
  std::int64_t uncertainty = -1;  ///< of its clock, in nanoseconds
  int reference = 0;              ///< the rank whose clock is meant
};

/// A file that `tutti run --trace` wrote.
struct TraceFile {
  std::map<int, TracedRank> ranks;
  std::vector<TracedCall> calls;  ///< as they began; of those that did not end well only what is complete
};

/// `who` reads it, as in "tutti WHO". Throws Error{invalid_argument}, "WHO: cannot read PATH: ...".
TraceFile read_trace(std::string_view who, const std::string& path);

}  // namespace tutti::cli
