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

constexpr milliseconds answer_time{300};
constexpr milliseconds trial_time{60};
/// All members of a group report the same wait at about the same time: one inquest serves them.
constexpr milliseconds asked_lately{150};
/// Longer than a report travels.
constexpr milliseconds known_before{150};
constexpr std::size_t most_gone = 4096;
/// When a rank leaves the others often do, too, and need not hear of it.
constexpr milliseconds news_pause{100};
/// In one message.
constexpr std::size_t most_ranks = 1024;

std::uint64_t fresh_group() {
  std::uint64_t bits = 0;
  while (bits < 4)
    if (::getentropy(&bits, sizeof bits) != 0)
      bits = static_cast<std::uint64_t>(Member::Clock::now().time_since_epoch().count());
  return bits & ~std::uint64_t{1};  // the lowest bit tells the lanes of a group apart
}

}  // namespace

void Coordinator::send(int rank, const ControlMessage& message) {
  if (ControlConnection* const connection = member_.connections_.find(rank)) connection->send(message);
}

void Coordinator::handle(int from, const ControlMessage& message) {
  switch (message.kind) {
    case ControlMessage::Kind::verdict:
      return publish(message.verdict);
    case ControlMessage::Kind::accusation:
      return hear(from, message.verdict);
    case ControlMessage::Kind::report:
      return inquire(message.report);
    case ControlMessage::Kind::answer:
      for (Inquest& inquest : inquests_)
        if (inquest.number == message.number && inquest.asked.erase(from) > 0) inquest.answers[from] = message.status;
      return tick(Clock::now());
    case ControlMessage::Kind::reunion:
      return join(from, message.report);
    default:
      return;
  }
}

void Coordinator::publish(const Verdict& verdict) {
  if (!member_.job_.learn(verdict)) return;
  member_.connections_.send_to_all({.kind = ControlMessage::Kind::verdict, .verdict = verdict});
  member_.user_->failed(verdict);
}

void Coordinator::brief(int newcomer, ControlConnection& connection) {
  for (const Verdict& verdict : member_.job_.verdicts())
    connection.send({.kind = ControlMessage::Kind::verdict, .verdict = verdict});
  send_departed(connection, member_.job_.all_that_left());
  for (const Inquest& inquest : inquests_)
    if (inquest.asked.contains(newcomer))
      connection.send({.kind = ControlMessage::Kind::question, .number = inquest.number, .report = inquest.report});
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

// ---- Broken links ----------------------------------------------------------------------------------------------

void Coordinator::hear(int accuser, const Verdict& accusation) {
  if (accuser != member_.rank_ && !member_.job_.is_alive(accuser)) return;
  Trial& trial = trials_.try_emplace(accusation.group, Trial{{}, Clock::now() + trial_time}).first->second;
  trial.accusations.emplace(accuser, accusation);
}

/// A rank that lost its network accuses all others, and all others accuse it: so whom most of them accuse it is. If its
/// process had ended this would be known by now.
Verdict Coordinator::most_accused(const Trial& trial) const {
  std::map<int, int> votes;
  for (const auto& [accuser, accusation] : trial.accusations) ++votes[accusation.culprit];
  const Verdict* chosen = nullptr;
  for (const auto& [accuser, accusation] : trial.accusations)
    if (!chosen || votes[accusation.culprit] > votes[chosen->culprit]) chosen = &accusation;
  return *chosen;
}

// ---- Inquests --------------------------------------------------------------------------------------------------

void Coordinator::inquire(const Report& report) {
  const auto now = Clock::now();
  std::erase_if(asked_, [now](const auto& entry) { return now - entry.second > asked_lately; });
  const bool asking = std::ranges::any_of(inquests_, [&](const Inquest& inquest) {
    return inquest.report.group == report.group && inquest.report.operation == report.operation &&
           (inquest.report.overdue || !report.overdue);
  });
  const bool lately = !asked_.emplace(std::pair{report.group, report.operation}, now).second;
  if (asking || (lately && !report.overdue)) return;

  Inquest& inquest = inquests_.emplace_back(Inquest{++last_number_, report, now + answer_time, {}, {}});
  for (const int member : report.members) ask(inquest, member);
  tick(now);
}

void Coordinator::ask(Inquest& inquest, int rank) {
  if (!member_.job_.exists(rank)) return;
  if (rank == member_.rank_) {
    if (const auto status = member_.user_->status(inquest.report)) inquest.answers[rank] = *status;
  } else if (member_.job_.is_alive(rank)) {
    inquest.asked.insert(rank);
    send(rank, {.kind = ControlMessage::Kind::question, .number = inquest.number, .report = inquest.report});
  }
}

/// Which of two lists of members is the wrong one, the members of both together know. False: there is nobody to ask.
bool Coordinator::widen(Inquest& inquest) {
  if (std::exchange(inquest.widened, true)) return false;
  std::set<int> others;
  for (const auto& [rank, status] : inquest.answers) others.insert(status.rival.begin(), status.rival.end());
  for (const int member : inquest.report.members) others.erase(member);
  for (const int rank : others) ask(inquest, rank);
  if (inquest.asked.empty()) return false;
  inquest.until = Clock::now() + answer_time;
  return true;
}

bool Coordinator::is_complete(const Inquest& inquest) const { return inquest.asked.empty(); }

void Coordinator::tick(Clock::time_point now) {
  std::list<Inquest> over;
  for (auto it = inquests_.begin(); it != inquests_.end();) {
    const auto next = std::next(it);
    if ((is_complete(*it) && !widen(*it)) || it->until <= now) over.splice(over.end(), inquests_, it);
    it = next;
  }
  for (const Inquest& inquest : over) conclude(inquest);
  if (!departed_.empty() && tell_at_ <= now) tell_who_departed();
  for (auto it = trials_.begin(); it != trials_.end();) {
    if (it->second.until > now) {
      ++it;
      continue;
    }
    if (!it->second.accusations.empty()) publish(most_accused(it->second));
    it = trials_.erase(it);
  }
}

Coordinator::Clock::time_point Coordinator::next() const {
  auto next = departed_.empty() ? Clock::time_point::max() : tell_at_;
  for (const Inquest& inquest : inquests_) next = std::min(next, inquest.until);
  for (const auto& [group, trial] : trials_) next = std::min(next, trial.until);
  return next;
}

void Coordinator::conclude(const Inquest& inquest) {
  const std::vector<int>& members = inquest.report.members;
  std::vector<Witness> witnesses;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!member_.job_.exists(members[i])) continue;
    witnesses.push_back(witness_of(inquest, members[i]));
    witnesses.back().name = name_in_group(static_cast<int>(i), members[i], member_.name(members[i]));
  }
  for (const auto& [rank, status] : inquest.answers) {
    if (std::ranges::count(members, rank) > 0) continue;
    witnesses.push_back(witness_of(inquest, rank));
    witnesses.back().is_member = false;
  }
  if (gone_.size() > most_gone) gone_.clear();  // and found out anew
  auto verdict = judge(inquest.report, witnesses);
  if (!verdict) return;
  if (verdict->code == ErrorCode::timeout) verdict->text = "timed out: " + verdict->text;
  if (verdict->code == ErrorCode::peer_lost && member_.job_.went_unseen(verdict->culprit))
    verdict->text = fmt::format(
        "{} is lost: its process does not exist any more, and others still wait for it in {}; its own output says more",
        member_.name(verdict->culprit), inquest.report.call);
  publish(*verdict);
  // Who waits in a sub-group that the others have not made hears it there.
  for (const auto& [member, status] : inquest.answers) {
    if (status.rival.empty() || verdict->code != ErrorCode::mismatch) continue;
    verdict->group = status.rival_group;
    publish(*verdict);
  }
}

Witness Coordinator::witness_of(const Inquest& inquest, int rank) {
  const auto now = Clock::now();
  Witness witness{.rank = rank, .name = member_.name(rank), .job_name = member_.name(rank)};
  if (const auto found = inquest.answers.find(rank); found != inquest.answers.end()) witness.status = found->second;
  witness.left = member_.job_.has_left(rank);
  if (witness.is_gone()) {
    const auto since = witness.left ? member_.job_.left_since(rank)
                                    : gone_.try_emplace({inquest.report.group, rank}, now).first->second;
    witness.known_gone = now - since > known_before;
  }
  witness.silent_seconds = std::chrono::duration<double>(now - member_.heard(rank)).count();
  return witness;
}

// ---- Reunions --------------------------------------------------------------------------------------------------

void Coordinator::join(int rank, const Report& report) {
  Gathering& gathering = gatherings_[report.group];
  gathering.report = report;
  gathering.here.insert(rank);
  decide();
}

void Coordinator::gone(int rank) {
  if (member_.job_.has_left(rank)) {
    if (departed_.empty()) tell_at_ = Clock::now() + news_pause;
    departed_.push_back(rank);
  }
  for (Inquest& inquest : inquests_) inquest.asked.erase(rank);
  for (auto& [group, trial] : trials_) trial.accusations.erase(rank);
  for (auto& [group, gathering] : gatherings_) gathering.here.erase(rank);
  decide();
}

/// Who waits for a reunion is told its outcome, or, so that it can name them, for whom it waits.
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
      if (member == member_.rank_) {
        member_.handle_as_member(message);
      } else {
        send(member, message);
      }
    }
    it = missing.empty() ? gatherings_.erase(it) : std::next(it);
  }
}

}  // namespace tutti::detail
