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
/// In one letter.
constexpr std::size_t most_ranks = 1024;

std::uint64_t fresh_group() {
  std::uint64_t bits = 0;
  while (bits < 4)
    if (::getentropy(&bits, sizeof bits) != 0)
      bits = static_cast<std::uint64_t>(Watch::Clock::now().time_since_epoch().count());
  return bits & ~std::uint64_t{1};  // the lowest bit tells the lanes of a group apart
}

}  // namespace

void Centre::send(int rank, const Letter& letter) {
  const auto line = watch_.lines_.find(rank);
  if (line != watch_.lines_.end()) line->second.send(letter);
}

void Centre::handle(int from, const Letter& letter) {
  switch (letter.kind) {
    case Letter::Kind::verdict:
      return publish(letter.verdict);
    case Letter::Kind::accusation:
      return hear(from, letter.verdict);
    case Letter::Kind::report:
      return inquire(letter.report);
    case Letter::Kind::answer:
      for (Inquest& inquest : inquests_)
        if (inquest.number == letter.number && inquest.asked.erase(from) > 0) inquest.answers[from] = letter.status;
      return tick(Clock::now());
    case Letter::Kind::reunion:
      return join(from, letter.report);
    default:
      return;
  }
}

void Centre::publish(const Verdict& verdict) {
  if (!watch_.learn(verdict)) return;
  for (auto& [rank, line] : watch_.lines_) line.send({.kind = Letter::Kind::verdict, .verdict = verdict});
  watch_.user_->failed(verdict);
}

void Centre::brief(int newcomer, Line& line) {
  for (const Verdict& verdict : watch_.verdicts_) line.send({.kind = Letter::Kind::verdict, .verdict = verdict});
  std::vector<int> left;
  for (int rank = 0; rank < watch_.size(); ++rank)
    if (watch_.state(rank) == Watch::State::left) left.push_back(rank);
  send_departed(line, left);
  for (const Inquest& inquest : inquests_)
    if (inquest.asked.contains(newcomer))
      line.send({.kind = Letter::Kind::question, .number = inquest.number, .report = inquest.report});
}

void Centre::send_departed(Line& line, std::span<const int> ranks) {
  for (; !ranks.empty(); ranks = ranks.subspan(std::min(ranks.size(), most_ranks))) {
    const auto some = ranks.first(std::min(ranks.size(), most_ranks));
    line.send({.kind = Letter::Kind::departed, .ranks = {some.begin(), some.end()}});
  }
}

void Centre::tell_who_departed() {
  const std::vector<int> departed = std::exchange(departed_, {});
  for (auto& [rank, line] : watch_.lines_) send_departed(line, departed);
  watch_.user_->departed(departed);
}

// ---- Broken links ----------------------------------------------------------------------------------------------

void Centre::hear(int accuser, const Verdict& accusation) {
  if (accuser != watch_.rank_ && watch_.state(accuser) != Watch::State::alive) return;
  Trial& trial = trials_.try_emplace(accusation.group, Trial{{}, Clock::now() + trial_time}).first->second;
  trial.accusations.emplace(accuser, accusation);
}

/// A rank that lost its network accuses all others, and all others accuse it: so whom most of them accuse it is. If its
/// process had ended this would be known by now.
Verdict Centre::most_accused(const Trial& trial) const {
  std::map<int, int> votes;
  for (const auto& [accuser, accusation] : trial.accusations) ++votes[accusation.culprit];
  const Verdict* chosen = nullptr;
  for (const auto& [accuser, accusation] : trial.accusations)
    if (!chosen || votes[accusation.culprit] > votes[chosen->culprit]) chosen = &accusation;
  return *chosen;
}

// ---- Inquests --------------------------------------------------------------------------------------------------

void Centre::inquire(const Report& report) {
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

void Centre::ask(Inquest& inquest, int rank) {
  if (rank < 0 || rank >= watch_.size()) return;
  if (rank == watch_.rank_) {
    if (const auto status = watch_.user_->status(inquest.report)) inquest.answers[rank] = *status;
  } else if (watch_.state(rank) == Watch::State::alive) {
    inquest.asked.insert(rank);
    send(rank, {.kind = Letter::Kind::question, .number = inquest.number, .report = inquest.report});
  }
}

/// Which of two lists of members is the wrong one, the members of both together know. False: there is nobody to ask.
bool Centre::widen(Inquest& inquest) {
  if (std::exchange(inquest.widened, true)) return false;
  std::set<int> others;
  for (const auto& [rank, status] : inquest.answers) others.insert(status.rival.begin(), status.rival.end());
  for (const int member : inquest.report.members) others.erase(member);
  for (const int rank : others) ask(inquest, rank);
  if (inquest.asked.empty()) return false;
  inquest.until = Clock::now() + answer_time;
  return true;
}

bool Centre::is_complete(const Inquest& inquest) const { return inquest.asked.empty(); }

void Centre::tick(Clock::time_point now) {
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

Centre::Clock::time_point Centre::next() const {
  auto next = departed_.empty() ? Clock::time_point::max() : tell_at_;
  for (const Inquest& inquest : inquests_) next = std::min(next, inquest.until);
  for (const auto& [group, trial] : trials_) next = std::min(next, trial.until);
  return next;
}

void Centre::conclude(const Inquest& inquest) {
  const std::vector<int>& members = inquest.report.members;
  std::vector<Witness> witnesses;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] < 0 || members[i] >= watch_.size()) continue;
    witnesses.push_back(witness_of(inquest, members[i]));
    witnesses.back().name = name_in_group(static_cast<int>(i), members[i], watch_.name(members[i]));
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
  if (verdict->code == ErrorCode::peer_lost && watch_.unseen_.contains(verdict->culprit))
    verdict->text = fmt::format(
        "{} is lost: its process does not exist any more, and others still wait for it in {}; its own output says more",
        watch_.name(verdict->culprit), inquest.report.call);
  publish(*verdict);
  // Who waits in a sub-group that the others have not made hears it there.
  for (const auto& [member, status] : inquest.answers) {
    if (status.rival.empty() || verdict->code != ErrorCode::mismatch) continue;
    verdict->group = status.rival_group;
    publish(*verdict);
  }
}

Witness Centre::witness_of(const Inquest& inquest, int rank) {
  const auto now = Clock::now();
  Witness witness{.rank = rank, .name = watch_.name(rank), .job_name = watch_.name(rank)};
  if (const auto found = inquest.answers.find(rank); found != inquest.answers.end()) witness.status = found->second;
  witness.left = watch_.state(rank) == Watch::State::left;
  if (witness.is_gone()) {
    const auto since =
        witness.left ? watch_.left_since_[rank] : gone_.try_emplace({inquest.report.group, rank}, now).first->second;
    witness.known_gone = now - since > known_before;
  }
  witness.silent_seconds = std::chrono::duration<double>(now - watch_.heard(rank)).count();
  return witness;
}

// ---- Reunions --------------------------------------------------------------------------------------------------

void Centre::join(int rank, const Report& report) {
  Gathering& gathering = gatherings_[report.group];
  gathering.report = report;
  gathering.here.insert(rank);
  decide();
}

void Centre::gone(int rank) {
  if (watch_.state(rank) == Watch::State::left) {
    if (departed_.empty()) tell_at_ = Clock::now() + news_pause;
    departed_.push_back(rank);
  }
  for (Inquest& inquest : inquests_) inquest.asked.erase(rank);
  for (auto& [group, trial] : trials_) trial.accusations.erase(rank);
  for (auto& [group, gathering] : gatherings_) gathering.here.erase(rank);
  decide();
}

/// Who waits for a reunion is told its outcome, or, so that it can name them, for whom it waits.
void Centre::decide() {
  for (auto it = gatherings_.begin(); it != gatherings_.end();) {
    const auto& [group, gathering] = *it;
    Letter letter{.kind = Letter::Kind::decision, .report = gathering.report};
    std::vector<int> missing;
    for (const int member : gathering.report.members) {
      if (gathering.here.contains(member)) {
        letter.ranks.push_back(member);
      } else if (member >= 0 && member < watch_.size() && watch_.state(member) == Watch::State::alive) {
        missing.push_back(member);
      }
    }
    const std::vector<int> here = letter.ranks;
    if (missing.empty()) {
      letter.number = fresh_group();
    } else {
      letter.ranks = missing;
    }
    for (const int member : here) {
      if (member == watch_.rank_) {
        watch_.handle_as_member(letter);
      } else {
        send(member, letter);
      }
    }
    it = missing.empty() ? gatherings_.erase(it) : std::next(it);
  }
}

}  // namespace tutti::detail
