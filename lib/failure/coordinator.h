#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/answer_deadline.h"
#include "lib/failure/control_message.h"
#include "lib/failure/member.h"

namespace tutti::detail {

struct RankView;

/// The work of the coordinator. On the failure detector's thread.
class Coordinator {
 public:
  using Clock = Member::Clock;

  explicit Coordinator(Member& member) : member_(member) {}

  void handle(int from, const ControlMessage& message);
  /// Tells all ranks of the failure, unless they have been told.
  void publish(const Failure& failure);
  /// Tells a rank that has connected late what it missed.
  void brief(int newcomer, ControlConnection& connection);
  /// Handles that `rank` is lost or has left.
  void gone(int rank);
  void tick(Clock::time_point now);
  /// Decides at once what it would decide later.
  void leave();
  /// When tick() must be called at the latest.
  Clock::time_point next() const;

 private:
  struct Query {
    std::uint64_t number;
    Report report;
    AnswerDeadline deadline;
    std::set<int> asked;  // ranks that were asked and have not answered
    std::map<int, Status> answers;
    bool widened = false;  // ranks were asked, too, that others take for members
  };
  /// The ranks that others suspect in a group, of a broken link or of another call.
  struct Doubt {
    std::map<int, Failure> suspicions;  // by the rank that reports them
    Clock::time_point until;
  };

  struct Gathering {
    Report report;
    std::map<int, std::uint64_t> here;  // by rank, the number of its call
  };

  void hear(int reporter, const Failure& suspicion, const Report& calls);
  Clock::time_point decision_time(std::uint64_t group, const Doubt& doubt) const;
  void decide_suspicions(Clock::time_point now);
  Failure most_suspected(const Doubt& doubt) const;
  void inquire(const Report& report);
  void conclude(const Query& query);
  bool is_complete(const Query& query) const;
  bool is_behind(int rank) const;
  void ask(Query& query, int rank);
  bool widen(Query& query);
  RankView view_of(const Query& query, int rank);
  void join(int rank, const Report& report);
  void withdraw(int rank, const Report& report);
  void decide();
  static void send_departed(ControlConnection& connection, std::span<const int> ranks);
  void tell_who_departed();
  void send(int rank, const ControlMessage& message);

  Member& member_;
  std::map<std::uint64_t, Doubt> doubts_;  // by group
  std::list<Query> queries_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Clock::time_point> asked_;  // when asked, by group and operation
  std::map<std::uint64_t, Gathering> gatherings_;                               // reunions by old group
  std::map<std::pair<std::uint64_t, int>, Clock::time_point> gone_;             // when found gone, by group and rank
  std::vector<int> departed_;  // ranks that have left, of which the others have not been told
  Clock::time_point tell_at_{};
  std::uint64_t last_number_ = 0;
};

}  // namespace tutti::detail
