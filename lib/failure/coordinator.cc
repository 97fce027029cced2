#include "lib/failure/coordinator.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/base/rank_name.h"
#include "lib/failure/diagnosis.h"

namespace tutti::detail {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds query_time{300};
/// Each report is compared with all queries.
constexpr std::size_t most_queries = 512;
constexpr milliseconds suspicion_time{60};
constexpr milliseconds longest_comparison{300};
/// All members of a group report the same wait at about the same time. One query serves all reports within this time.
constexpr milliseconds asked_lately{150};
/// A little more than the time that a report takes to arrive.
constexpr milliseconds known_before{150};
constexpr std::size_t most_gone = 4096;
/// When a rank leaves, the others often leave, too, and need not be told about it.
constexpr milliseconds news_pause{100};
/// Ranks per message.
constexpr std::size_t most_ranks = 1024;

std::uint64_t fresh_group() {
  std::uint64_t bits = 0;
  while (bits < 4)
    if (::getentropy(&bits, sizeof bits) != 0)
      bits = static_cast<std::uint64_t>(Member::Clock::now().time_since_epoch().count());
  return bits & ~std::uint64_t{1};  // the lowest bit distinguishes the two channels of a group
}

}  // namespace

void Coordinator::send(int rank, const ControlMessage& message) {
  if (rank == member_.rank_) return member_.handle_as_member(message);
  if (ControlConnection* const connection = member_.connections_.find(rank)) connection->send(message);
}

void Coordinator::handle(int from, const ControlMessage& message) {
  switch (message.kind) {
    case ControlMessage::Kind::failure:
      return publish(message.failure);
    case ControlMessage::Kind::suspicion:
      return hear(from, message.failure, message.report);
    case ControlMessage::Kind::report:
      return inquire(message.report);
    case ControlMessage::Kind::answer:
      for (Query& query : queries_)
        if (query.number == message.number && query.asked.erase(from) > 0) query.answers[from] = message.status;
      return tick(Clock::now());
    case ControlMessage::Kind::reunion:
      return message.report.overdue ? withdraw(from, message.report) : join(from, message.report);
    default:
      return;
  }
}

void Coordinator::publish(const Failure& failure) {
  if (!member_.job_.learn(failure)) return;
  member_.connections_.send_to_all({.kind = ControlMessage::Kind::failure, .failure = failure});
  member_.user_->failed(failure);
}

void Coordinator::brief(int newcomer, ControlConnection& connection) {
  for (const Failure& failure : member_.job_.failures())
    connection.send({.kind = ControlMessage::Kind::failure, .failure = failure});
  send_departed(connection, member_.job_.all_that_left());
  for (const Query& query : queries_)
    if (query.asked.contains(newcomer))
      connection.send({.kind = ControlMessage::Kind::question, .number = query.number, .report = query.report});
}

void Coordinator::send_departed(ControlConnection& connection, std::span<const int> ranks) {
  for (; !ranks.empty(); ranks = ranks.subspan(std::min(ranks.size(), most_ranks))) {
    const auto some = ranks.first(std::min(ranks.size(), most_ranks));
    connection.send({.kind = ControlMessage::Kind::departed, .ranks = {some.begin(), some.end()}});
  }
}

void Coordinator::tell_who_departed() {
  const std::vector<int> departed = std::exchange(departed_, {});
  for (auto& [rank, connection] : member_.connections_.all()) send_departed(connection, departed);
  member_.user_->departed(departed);
}

// ---- Suspicions ------------------------------------------------------------------------------------------------

void Coordinator::hear(int reporter, const Failure& suspicion, const Report& calls) {
  if (reporter != member_.rank_ && !member_.job_.is_alive(reporter)) return;
  Doubt& doubt = doubts_.try_emplace(suspicion.group, Doubt{{}, Clock::now() + suspicion_time}).first->second;
  doubt.suspicions.emplace(reporter, suspicion);
  // All members' calls show which is the odd one, and not only those two that met.
  if (suspicion.code == ErrorCode::mismatch) inquire(calls);
}

/// When to decide. Where calls differ, an answer that is still to come says more than the ranks that met. But the
/// members decide by themselves, each for another one, 400 ms after they suspected.
Coordinator::Clock::time_point Coordinator::decision_time(std::uint64_t group, const Doubt& doubt) const {
  const bool differ =
      std::ranges::any_of(doubt.suspicions, [](const auto& entry) { return entry.second.code == ErrorCode::mismatch; });
  const bool asks = std::ranges::any_of(queries_, [=](const Query& query) { return query.report.group == group; });
  return differ && asks ? doubt.until + longest_comparison : doubt.until;
}

void Coordinator::decide_suspicions(Clock::time_point now) {
  for (auto it = doubts_.begin(); it != doubts_.end();) {
    if (decision_time(it->first, it->second) > now) {
      ++it;
      continue;
    }
    if (!it->second.suspicions.empty()) publish(most_suspected(it->second));
    it = doubts_.erase(it);
  }
}

void Coordinator::leave() {
  queries_.clear();
  decide_suspicions(Clock::time_point::max());
}

/// A rank without network suspects all others, and all others suspect it. So the rank that most others suspect is lost.
/// If its process had ended, that would be known by now. The same holds for a rank that makes another call than the
/// others do.
Failure Coordinator::most_suspected(const Doubt& doubt) const {
  std::map<int, int> votes;
  for (const auto& [reporter, suspicion] : doubt.suspicions) ++votes[suspicion.culprit];
  const Failure* chosen = nullptr;
  for (const auto& [reporter, suspicion] : doubt.suspicions)
    if (!chosen || votes[suspicion.culprit] > votes[chosen->culprit]) chosen = &suspicion;
  return *chosen;
}

// ---- Queries --------------------------------------------------------------------------------------------------

/// Asks all members or none: one that has not been asked would count as silent. A call that is not overdue is reported
/// again if nobody is asked, and where calls differ, the suspicions decide.
void Coordinator::inquire(const Report& report) {
  const auto one_is_behind = [&] {
    return std::ranges::any_of(report.members, [this](int member) { return is_behind(member); });
  };
  if (!report.overdue && (queries_.size() >= most_queries || one_is_behind())) return;
  const auto now = Clock::now();
  std::erase_if(asked_, [now](const auto& entry) { return now - entry.second > asked_lately; });
  const bool asking = std::ranges::any_of(queries_, [&](const Query& query) {
    return query.report.group == report.group && query.report.operation == report.operation &&
           (query.report.overdue || !report.overdue);
  });
  const bool lately = !asked_.emplace(std::pair{report.group, report.operation}, now).second;
  if (asking || (lately && !report.overdue)) return;

  Query& query = queries_.emplace_back(Query{++last_number_, report, AnswerDeadline{query_time, now}, {}, {}});
  for (const int member : report.members) ask(query, member);
  tick(now);
}

bool Coordinator::is_behind(int rank) const {
  const ControlConnection* const connection = member_.connections_.find(rank);
  return connection && connection->is_behind();
}

void Coordinator::ask(Query& query, int rank) {
  if (!member_.job_.exists(rank) || !member_.job_.is_alive(rank)) return;
  query.asked.insert(rank);
  send(rank, {.kind = ControlMessage::Kind::question, .number = query.number, .report = query.report});
}

/// If the members' lists differ, the members of both lists together know which is wrong: asks the others, too. False:
/// there is nobody else to ask.
bool Coordinator::widen(Query& query) {
  if (std::exchange(query.widened, true)) return false;
  std::set<int> others;
  for (const auto& [rank, status] : query.answers)
    others.insert(status.other_members.begin(), status.other_members.end());
  for (const int member : query.report.members) others.erase(member);
  for (const int rank : others) ask(query, rank);
  if (query.asked.empty()) return false;
  query.deadline = AnswerDeadline{query_time, Clock::now()};
  return true;
}

bool Coordinator::is_complete(const Query& query) const { return query.asked.empty(); }

void Coordinator::tick(Clock::time_point now) {
  std::list<Query> over;
  for (auto it = queries_.begin(); it != queries_.end();) {
    const auto next = std::next(it);
    if ((is_complete(*it) && !widen(*it)) || it->deadline.is_over(now)) over.splice(over.end(), queries_, it);
    it = next;
  }
  for (const Query& query : over) conclude(query);
  if (!departed_.empty() && tell_at_ <= now) tell_who_departed();
  decide_suspicions(now);
}

Coordinator::Clock::time_point Coordinator::next() const {
  auto next = departed_.empty() ? Clock::time_point::max() : tell_at_;
  for (const Query& query : queries_) next = std::min(next, query.deadline.end());
  for (const auto& [group, doubt] : doubts_) next = std::min(next, decision_time(group, doubt));
  return next;
}

void Coordinator::conclude(const Query& query) {
  const std::vector<int>& members = query.report.members;
  std::vector<RankView> views;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!member_.job_.exists(members[i])) continue;
    views.push_back(view_of(query, members[i]));
    views.back().name = name_in_group(static_cast<int>(i), members[i], member_.name(members[i]));
  }
  for (const auto& [rank, status] : query.answers) {
    if (std::ranges::count(members, rank) > 0) continue;
    views.push_back(view_of(query, rank));
    views.back().is_member = false;
  }
  if (gone_.size() > most_gone) gone_.clear();  // they will be found again
  auto failure = diagnose(query.report, views);
  if (!failure) return;
  const auto doubt = doubts_.find(query.report.group);
  if (failure->code == ErrorCode::timeout && doubt != doubts_.end() && !doubt->second.suspicions.empty())
    return publish(most_suspected(doubt->second));  // which explains why ranks are late
  if (failure->code == ErrorCode::timeout) failure->text = "timed out: " + failure->text;
  if (failure->code == ErrorCode::peer_lost && member_.job_.went_unseen(failure->culprit))
    failure->text = fmt::format(
        "{} is lost: its process does not exist any more, and others still wait for it in {}; its own output says more",
        member_.name(failure->culprit), query.report.call);
  publish(*failure);
  // A rank that waits in a sub-group which the others have not made is told in that sub-group.
  for (const auto& [member, status] : query.answers) {
    if (status.other_members.empty() || failure->code != ErrorCode::mismatch) continue;
    failure->group = status.other_group;
    publish(*failure);
  }
}

RankView Coordinator::view_of(const Query& query, int rank) {
  const auto now = Clock::now();
  RankView view{.rank = rank, .name = member_.name(rank), .job_name = member_.name(rank)};
  if (const auto found = query.answers.find(rank); found != query.answers.end()) view.status = found->second;
  view.left = member_.job_.has_left(rank);
  if (view.is_gone()) {
    const auto since =
        view.left ? member_.job_.left_since(rank) : gone_.try_emplace({query.report.group, rank}, now).first->second;
    view.known_gone = now - since > known_before;
  }
  if (rank != member_.rank_) view.silent_seconds = std::chrono::duration<double>(now - member_.heard(rank)).count();
  return view;
}

// ---- Reunions --------------------------------------------------------------------------------------------------

void Coordinator::join(int rank, const Report& report) {
  Gathering& gathering = gatherings_[report.group];
  gathering.report = report;
  gathering.here[rank] = report.operation;
  decide();
}

/// `rank` has given up, and may do something else now. So the others wait until it calls again. If it has called again
/// already, this concerns a call before.
void Coordinator::withdraw(int rank, const Report& report) {
  const auto gathering = gatherings_.find(report.group);
  if (gathering == gatherings_.end()) return;  // it is decided
  const auto joined = gathering->second.here.find(rank);
  if (joined == gathering->second.here.end() || joined->second != report.operation) return;
  gathering->second.here.erase(joined);
  // Those that go on waiting are not told: they wait for the ranks for which this one waited, too.
  if (gathering->second.here.empty()) gatherings_.erase(gathering);
}

void Coordinator::gone(int rank) {
  if (member_.job_.has_left(rank)) {
    if (departed_.empty()) tell_at_ = Clock::now() + news_pause;
    departed_.push_back(rank);
  }
  for (Query& query : queries_) query.asked.erase(rank);
  for (auto& [group, doubt] : doubts_) doubt.suspicions.erase(rank);
  for (auto& [group, gathering] : gatherings_) gathering.here.erase(rank);
  decide();
}

/// Tells ranks that wait for a reunion its outcome, or which ranks are still missing, so that they can name them.
void Coordinator::decide() {
  for (auto it = gatherings_.begin(); it != gatherings_.end();) {
    const auto& [group, gathering] = *it;
    ControlMessage message{.kind = ControlMessage::Kind::decision, .report = gathering.report};
    std::vector<int> missing;
    for (const int member : gathering.report.members) {
      if (gathering.here.contains(member)) {
        message.ranks.push_back(member);
      } else if (member_.job_.exists(member) && member_.job_.is_alive(member)) {
        missing.push_back(member);
      }
    }
    const std::vector<int> here = message.ranks;
    if (missing.empty()) {
      message.number = fresh_group();
    } else {
      message.ranks = missing;
    }
    for (const int member : here) {
      message.report.operation = gathering.here.at(member);
      send(member, message);
    }
    it = missing.empty() ? gatherings_.erase(it) : std::next(it);
  }
}

}  // namespace tutti::detail
