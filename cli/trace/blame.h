#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/trace/read.h"

namespace tutti::cli {

/// How long others waited because of a rank or a link, in nanoseconds, and where most.
struct Blame {
  std::int64_t time = 0;
  std::int64_t most = 0;
  std::string call;  ///< in which it was most
};

struct RankBlame {
  Blame late;               ///< it was not in the call yet, nor in one before
  Blame slow;               ///< it was, and waited for nobody
  std::int64_t waited = 0;  ///< itself, for others
  std::int64_t time() const { return late.time + slow.time; }
};

/// Whose fault each wait was.
///
/// A receiver waits for its sender until the message is given to the link: that is the sender's fault, but for the time
/// in which the sender waited in turn, or was in a call before. From then on it is the link's, less what the receiver's
/// thread had other work or was away, and less what the sender's was away with the rest of the message still in its
/// hands, which is the sender's fault too. A link is blamed for what it takes more than others do for such a message.
/// If several wait for one, the longest counts.
struct Verdicts {
  std::map<int, RankBlame> ranks;
  std::map<std::pair<int, int>, Blame> links;  ///< from and to
  std::int64_t in_calls = 0;                   ///< from the first rank's begin to the last one's end, all calls
};
Verdicts judge(const std::vector<TracedCall>& calls);

struct Conclusion {
  std::string text;                        ///< "rank 2 was slow: ..."
  std::vector<int> ranks;                  ///< whom it names, unless it is
  std::vector<std::pair<int, int>> links;  ///< links
};

/// The worst first; one that names nobody where nobody stands out. `job` knows which rank is on which host.
std::vector<Conclusion> conclusions(const Verdicts& verdicts, const std::map<int, TracedRank>& job);

/// "12.3 us"
std::string duration_text(std::int64_t nanoseconds);

}  // namespace tutti::cli
