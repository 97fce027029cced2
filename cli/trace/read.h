#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
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

/// The same time as disjoint spans, in time order.
std::vector<Span> apart(std::vector<Span> spans);

/// One message of a call, or one rank's reading of another's contribution on a board.
struct TracedMessage {
  int from = 0;
  int to = 0;
  std::uint64_t bytes = 0;
  std::uint32_t step = 0;     ///< its send in the plan of `from`; over a board: the round
  std::int64_t given = 0;     ///< the sender gave it to the link
  std::int64_t sent = 0;      ///< the sender had given all of it to the link
  std::int64_t expected = 0;  ///< the receiver began to look for it
  std::int64_t arrived = 0;   ///< the receiver saw it
  std::int64_t received = 0;  ///< the receiver had it in its place
  Span blocked{};             ///< the sender waited until the receiver had freed a slot; on streams
};

/// One collective, with the data of all its ranks.
struct TracedCall {
  std::string name;             ///< "all_reduce #5"
  std::uint64_t operation = 0;  ///< 5: its number in its group
  std::string algorithm;
  std::string group;
  Collective collective{};
  std::uint64_t bytes = 0;
  std::uint64_t element = 0;  ///< bytes of an element; 0: not known
  int size = 0;               ///< ranks of its group
  int root = 0;               ///< in its group
  bool variable = false;
  std::map<int, Span> ranks;  ///< when each rank was in it, of those whose records are there
  std::map<int, int> places;  ///< their ranks in the group
  std::vector<TracedMessage> messages;
  /// Over a board: all readings between ranks, round by round. `messages` has those whose writers came last.
  std::vector<TracedMessage> readings;
  std::map<int, std::vector<Span>> busy;  ///< by rank: its thread worked on it
  std::map<int, std::vector<Span>> away;  ///< by rank: its thread did not look at its links; disjoint, in time order
  bool is_complete = true;                ///< no step of a rank was left out of the trace
  std::set<int> failed;                   ///< ranks on which it failed,
  std::set<int> unfinished;               ///< and those that never ended it

  /// By their places the ranks of its group; empty if not all are there.
  std::vector<int> members() const;
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
  int reference = 0;              ///< the rank to whose clock it refers
};

/// A file that `tutti run --trace` wrote.
struct TraceFile {
  std::map<int, TracedRank> ranks;
  std::uint64_t unnamed = 0;       ///< calls of one rank that are left out: their communicators cannot be told apart
  std::vector<TracedCall> calls;   ///< in order of their beginnings
  std::vector<TracedCall> failed;  ///< or never ended on a rank; the same
};

/// `who` is the subcommand for error messages. Throws Error{invalid_argument} "`who`: cannot read PATH ...".
TraceFile read_trace(std::string_view who, const std::string& path);

}  // namespace tutti::cli
