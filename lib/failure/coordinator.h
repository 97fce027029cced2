#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "lib/failure/control_message.h"
#include "lib/failure/member.h"

namespace tutti::detail {

struct RankView;

/// What the coordinator does for the others. On the failure detector's thread.
class Coordinator {
 public:
  using Clock = Member::Clock;

  explicit Coordinator(Member& member) : member_(member) {}

  void handle(int from, const ControlMessage& message);
  /// Tells everybody, the first time.
  void publish(const Failure& failure);
  /// Tells a rank that has come late what it missed.
  void brief(int newcomer, ControlConnection& connection);
  /// `rank` is lost or has left.
  void gone(int rank);
  void tick(Clock::time_point now);
  /// When tick() has something to do, at the latest.
  Clock::time_point next() const;

 private:
  struct Query {
    std::uint64_t number;
    Report report;
    Clock::time_point until;
    std::set<int> asked;  // and not answered
    std::map<int, Status> answers;
    bool widened = false;  // to ranks that others take for members
  };
  struct BrokenLinks {
    std::map<int, Failure> suspicions;  // by reporter
    Clock::time_point until;
  };

  struct Gathering {
    Report report;
    std::set<int> here;
  };

  void hear(int reporter, const Failure& suspicion);
  Failure most_suspected(const BrokenLinks& links) const;
  void inquire(const Report& report);
  void conclude(const Query& query);
  bool is_complete(const Query& query) const;
  void ask(Query& query, int rank);
  bool widen(Query& query);
  RankView view_of(const Query& query, int rank);
  void join(int rank, const Report& report);
  void decide();
  static void send_departed(ControlConnection& connection, std::span<const int> ranks);
  void tell_who_departed();
  void send(int rank, const ControlMessage& message);

  Member& member_;
  std::map<std::uint64_t, BrokenLinks> broken_links_;  // by group
  std::list<Query> queries_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Clock::time_point> asked_;  // lately, by group and operation
  std::map<std::uint64_t, Gathering> gatherings_;                               // by old group
  std::map<std::pair<std::uint64_t, int>, Clock::time_point> gone_;             // group and rank: first found so
  std::vector<int> departed_;                                                   // of whom nobody has been told yet
  Clock::time_point tell_at_{};
  std::uint64_t last_number_ = 0;
};

}  // namespace tutti::detail
