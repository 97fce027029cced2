#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/plan.h"
#include "cli/simulate/task.h"
#include "cli/trace/blame.h"
#include "cli/trace/read.h"

namespace tutti::cli {

/// A message of a plan as it was and as it should have been, in nanoseconds from the begin of its call.
struct ReplayedMessage {
  std::int64_t given = 0;     ///< its sender let it go
  std::int64_t received = 0;  ///< its receiver had it in its place
  std::int64_t predicted_begin = 0;
  std::int64_t predicted_end = 0;
};

/// A traced call over its plan. Ranks are counted in its group; times are nanoseconds from its first rank's begin.
struct ReplayedCall {
  std::string name;             ///< "all_reduce #5"
  std::uint64_t operation = 0;  ///< 5
  std::string group;
  std::uint64_t bytes = 0;                ///< that its ranks named
  std::vector<int> members;               ///< their ranks in the job
  std::vector<Span> in_call;              ///< by rank
  std::int64_t end = 0;                   ///< of the last rank
  std::int64_t predicted = 0;             ///< the same by the plan; 0: nothing was
  std::vector<ReplayedMessage> messages;  ///< as the plans of rank 0, 1, ... send them
  std::vector<std::vector<Span>> waits;   ///< by rank: for messages, one after the other
  std::vector<RankBlame> blame;           ///< by rank
  std::vector<Conclusion> verdict;        ///< on this call alone
};

/// Traced calls that carry one plan.
struct Run {
  std::string file;
  simulate::Task task;  ///< of the call that is shown first
  std::vector<ReplayedCall> calls;
  std::size_t first = 0;  ///< the call that is shown first
  std::size_t found = 0;  ///< calls of that plan in the file, of which some are in `calls`
  bool groups = false;    ///< they are of several communicators
  std::string left_out;   ///< plans that took more time, and more than a page has room for; mostly nothing
};

/// What of a trace is to be shown; what is not given may be anything.
struct RunWish {
  std::string file;
  std::optional<Collective> collective;
  std::string algorithm;
  std::optional<int> ranks;
  std::optional<int> root;
  std::optional<std::uint64_t> operation;  ///< the call's number
};

/// The plan that fits and took most time in the trace, and of its calls the one that is wished, or the longest of which
/// there is something to say, with as many others as a page has room for. Throws Error{invalid_argument} that says what
/// the trace has instead.
Run find_run(const RunWish& wish, int most_ranks);

/// About as many bytes of a page.
std::size_t size_on_page(const ReplayedCall& call);

/// The run for cli/plan/page/web/run.js, as JSON.
std::string to_json(const Run& run);

}  // namespace tutti::cli
