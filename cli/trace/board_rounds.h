#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/trace/read.h"

namespace tutti::cli {

/// The rounds of calls over boards, of a trace's slices and arrows. An arrow says that one rank read what the other one
/// had posted, so that rows of ranks, calls in windows and rounds are the same here: who waited for whom is what the
/// ranks recorded.
class BoardRounds {
 public:
  using CallKey = std::pair<std::string, std::uint64_t>;  ///< group and number
  using Thread = std::pair<int, std::uint64_t>;           ///< rank and number

  struct Slice {
    Thread thread;
    CallKey call;
    std::uint32_t round = 0;
    std::string name;  ///< "post", "wait", "take" or "post and wait"
    Span span;
    std::uint64_t bytes = 0;
  };
  static bool has_slices_named(const std::string& name);
  void add(const Slice& slice);

  /// An end of any arrow. Those that end in no slice of a board are ignored.
  struct ArrowEnd {
    std::uint64_t id = 0;
    bool begins = false;
    Thread thread;
    std::int64_t at = 0;
  };
  void add(const ArrowEnd& end);

  /// Adds readings, the messages that were waited for, and what the ranks did meanwhile. A rank waits for the last of
  /// the ranks whose contributions it reads. Records of some ranks may be lost.
  void put_into(std::map<CallKey, TracedCall>& calls);

 private:
  /// A rank's part in a round. In a row it may wait twice: for its turn, and for the sum.
  struct Part {
    struct Wait {
      Span wait;
      std::optional<Span> take;
      std::map<int, const Part*> writers;  ///< by rank
    };
    std::optional<Span> post;
    std::vector<Wait> waits;  ///< in time order, once all are there
    std::vector<Span> takes;
    std::uint64_t bytes = 0;
  };
  using Parts = std::map<int, Part>;  // by rank
  struct Place {
    Span span;
    Part* part;
    const Parts* round;
  };
  struct Arrow {
    std::optional<std::pair<Thread, std::int64_t>> begin, end;
  };

  static void order(Part& part);
  static std::int64_t had(const Part& part, const Part::Wait& one);
  static void put_part(TracedCall& call, std::uint32_t round, int rank, const Part& part);
  void connect();
  const Place* find(const std::pair<Thread, std::int64_t>& moment) const;

  std::map<std::tuple<CallKey, std::uint32_t>, Parts> rounds_;
  std::map<Thread, std::map<std::int64_t, Place>> slices_;  // by beginning
  std::map<std::uint64_t, Arrow> arrows_;
};

}  // namespace tutti::cli
