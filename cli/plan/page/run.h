#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/plan.h"
#include "cli/simulate/simulated_call.h"
#include "cli/trace/blame.h"
#include "cli/trace/read.h"

namespace tutti::cli {

/// A message of a plan as measured and as predicted, in nanoseconds from the beginning of its call.
struct ReplayedMessage {
  std::int64_t given = 0;     ///< the sender gave it to the link
  std::int64_t received = 0;  ///< the receiver had it in its place
  std::int64_t predicted_begin = 0;
  std::int64_t predicted_end = 0;
};

/// A traced call on its plan. Ranks are those of its group; times are nanoseconds from the beginning of the first rank.
struct ReplayedCall {
  std::string name;             ///< "all_reduce #5"
  std::uint64_t operation = 0;  ///< 5
  std::string group;
  std::uint64_t bytes = 0;                ///< as given by its ranks
  std::vector<int> members;               ///< their ranks in the job
  std::vector<Span> in_call;              ///< by rank
  std::int64_t end = 0;                   ///< end of the last rank
  std::int64_t predicted = 0;             ///< predicted `end`; 0: there is no prediction
  std::vector<ReplayedMessage> messages;  ///< in the order in which the plans of rank 0, 1, ... send them
  std::vector<std::vector<Span>> waits;   ///< by rank: waits for messages, one after the other
  std::vector<RankBlame> blame;           ///< by rank
  std::vector<Conclusion> verdict;        ///< on this call alone
};

/// Traced calls that use one plan.
struct Run {
  std::string file;
  simulate::SimulatedCall simulated;  ///< of the call that is shown first
  std::vector<ReplayedCall> calls;
  std::size_t first = 0;  ///< the call that is shown first
  std::size_t found = 0;  ///< calls of that plan in the file, of which some are in `calls`
  bool groups = false;    ///< they are of several communicators
  std::string left_out;   ///< plans that took more time but are too large for a page; mostly empty
};

/// The part of a trace to show; unset members match anything.
struct RunWish {
  std::string file;
  std::optional<Collective> collective;
  std::string algorithm;
  std::optional<int> ranks;
  std::optional<int> root;
  std::optional<std::uint64_t> operation;  ///< the call's number
};

/// The matching plan with the longest total time in the trace. Its first call is the requested one, or the longest
/// about which there is something to report, followed by as many others as fit on a page. Throws
/// Error{invalid_argument} that says what the trace has instead.
Run find_run(const RunWish& wish, int most_ranks);

/// Approximate size in bytes on a page.
std::size_t size_on_page(const ReplayedCall& call);

/// The run as JSON for cli/plan/page/web/run.js.
std::string to_json(const Run& run);

}  // namespace tutti::cli
