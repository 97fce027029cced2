#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/trace/read.h"

namespace tutti::cli {

/// How long others waited for a rank or a link, in nanoseconds, and in which call most.
struct Blame {
  std::int64_t time = 0;
  std::int64_t most = 0;
  std::string call;  ///< in which it was most
};

struct RankBlame {
  Blame late;               ///< it was not in the call yet, nor in an earlier one
  Blame slow;               ///< it was in the call, and did not wait
  std::int64_t waited = 0;  ///< itself, for others
  std::int64_t time() const { return late.time + slow.time; }
};

/// Attributes each wait to a rank or a link.
///
/// A receiver waits for its sender until the message is given to the link. That is attributed to the sender, except for
/// the time in which the sender waited itself. If it was in an earlier call, it was slow in that one, unless others
/// have waited for it there in that time. From then on the wait is attributed to the link. Time in which the receiver's
/// thread had other work or was away is subtracted. Time in which the sender was away before the link had taken all of
/// the message counts as the sender's. A link is blamed only for the time beyond what other links need for such a
/// message. If several ranks wait for one, the longest wait counts.
struct Verdicts {
  std::map<int, RankBlame> ranks;
  std::map<std::pair<int, int>, Blame> links;  ///< from and to
  std::int64_t in_calls = 0;  ///< from the beginning of the first rank to the end of the last one, all calls
};
Verdicts judge(const std::vector<TracedCall>& calls);

/// The spans of `rank`; none if it has none.
const std::vector<Span>& spans_of(const std::map<int, std::vector<Span>>& all, int rank);
/// Adds the parts of `span` outside of `holes` to `rest`.
void add_rest(Span span, std::vector<Span> holes, std::vector<Span>& rest);

struct Conclusion {
  std::string text;                        ///< "rank 2 was slow: ..."
  std::vector<int> ranks;                  ///< the ranks that it names,
  std::vector<std::pair<int, int>> links;  ///< or the links
};

/// The worst first; a single one without a name if no rank or link stands out. `job` maps ranks to hosts.
std::vector<Conclusion> conclusions(const Verdicts& verdicts, const std::map<int, TracedRank>& job);

/// "12.3 us"
std::string duration_text(std::int64_t nanoseconds);

}  // namespace tutti::cli
