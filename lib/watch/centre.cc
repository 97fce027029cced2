#include "lib/watch/centre.h"

#include <sys/random.h>

#include <algorithm>
#include <vector>

#include "lib/watch/judge.h"

namespace tutti::detail {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds answer_time{400};
constexpr milliseconds trial_time{60};
/// All members of a group report the same wait at about the same time: one inquest serves them.
constexpr milliseconds asked_lately{150};
/// Longer than a report travels.
constexpr milliseconds known_before{150};
constexpr std::size_t most_gone = 4096;

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

void Centre::brief(Line& line) {
  for (const Verdict& verdict : watch_.verdicts_) line.send({.kind = Letter::Kind::verdict, .verdict = verdict});
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
  for (const int member : report.members) {
    if (member < 0 || member >= watch_.size()) continue;
    if (member == watch_.rank_) {
      if (const auto status = watch_.user_->status(report)) inquest.answers[member] = *status;
    } else if (watch_.state(member) == Watch::State::alive) {
      inquest.asked.insert(member);
      send(member, {.kind = Letter::Kind::question, .number = inquest.number, .report = report});
    }
  }
  tick(now);
}

bool Centre::is_complete(const Inquest& inquest) const { return inquest.asked.empty(); }

void Centre::tick(Clock::time_point now) {
  std::list<Inquest> over;
  for (auto it = inquests_.begin(); it != inquests_.end();) {
    const auto next = std::next(it);
    if (is_complete(*it) || it->until <= now) over.splice(over.end(), inquests_, it);
    it = next;
  }
  for (const Inquest& inquest : over) conclude(inquest);
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
  auto next = Clock::time_point::max();
  for (const Inquest& inquest : inquests_) next = std::min(next, inquest.until);
  for (const auto& [group, trial] : trials_) next = std::min(next, trial.until);
  return next;
}

void Centre::conclude(const Inquest& inquest) {
  const auto now = Clock::now();
  std::vector<Witness> witnesses;
  for (const int member : inquest.report.members) {
    if (member < 0 || member >= watch_.size()) continue;
    Witness witness{.rank = member, .name = watch_.name(member)};
    if (const auto found = inquest.answers.find(member); found != inquest.answers.end()) witness.status = found->second;
    witness.left = watch_.state(member) == Watch::State::left;
    if (witness.is_gone())
      witness.known_gone = now - gone_.try_emplace({inquest.report.group, member}, now).first->second > known_before;
    witness.silent_seconds = std::chrono::duration<double>(now - watch_.heard(member)).count();
    witnesses.push_back(std::move(witness));
  }
  if (gone_.size() > most_gone) gone_.clear();  // and found out anew
  auto verdict = judge(inquest.report, witnesses);
  if (!verdict) return;
  if (verdict->code == ErrorCode::timeout) verdict->text = "timed out: " + verdict->text;
  publish(*verdict);
  // Who waits in a sub-group that the others have not made hears it there.
  for (const auto& [member, status] : inquest.answers) {
    if (status.rival.empty() || verdict->code != ErrorCode::mismatch) continue;
    verdict->group = status.rival_group;
    publish(*verdict);
  }
}

// ---- Reunions --------------------------------------------------------------------------------------------------

void Centre::join(int rank, const Report& report) {
  Gathering& gathering = gatherings_[report.group];
  gathering.report = report;
  gathering.here.insert(rank);
  decide();
}

void Centre::gone(int rank) {
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
