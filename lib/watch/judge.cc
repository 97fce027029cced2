// From the surest finding to the least sure:
//
//   1  two ranks called different things under one number              at any time
//   2  two sub-groups were made from different lists                   at any time
//   3  somebody waits for a rank that has closed the communicator      at any time, if nothing has moved since
//   4  a rank does not answer                                          at the deadline, like all that follow
//   5  a rank is alive but has not called
//   6  ranks wait for each other in a circle
//   7  everybody is in the call: who waits for nobody is the slow one

#include "lib/watch/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace tutti::detail {
namespace {

using Presence = Status::Presence;

class Court {
 public:
  Court(const Report& report, std::span<const Witness> witnesses) : report_(report), witnesses_(witnesses) {}

  std::optional<Verdict> find() const {
    if (auto verdict = different_calls()) return verdict;
    if (auto verdict = different_lists()) return verdict;
    if (report_.stalled || report_.overdue)
      if (auto verdict = waits_for_one_who_left()) return verdict;
    if (!report_.overdue) return std::nullopt;
    if (auto verdict = silent()) return verdict;
    if (auto verdict = not_in_the_call()) return verdict;
    if (auto verdict = circle()) return verdict;
    return slowest();
  }

 private:
  Verdict verdict(ErrorCode code, const Witness& culprit, std::string text) const {
    return {report_.group, code, culprit.rank, report_.operation, std::move(text)};
  }

  const Witness* find(int rank) const {
    const auto found = std::ranges::find(witnesses_, rank, &Witness::rank);
    return found == witnesses_.end() ? nullptr : &*found;
  }

  bool is_awaited(int rank) const {
    return std::ranges::any_of(witnesses_, [rank](const Witness& witness) {
      return witness.status && std::ranges::count(witness.status->awaited, rank) > 0;
    });
  }

  /// The call that most ranks made is taken for the right one; of two equally common ones, that of the lower rank.
  std::optional<Verdict> different_calls() const {
    std::map<std::string, int> votes;
    for (const Witness& witness : witnesses_)
      if (witness.status && !witness.status->call.empty()) ++votes[witness.status->call];
    if (votes.size() < 2) return std::nullopt;
    const Witness* usual = nullptr;
    for (const Witness& witness : witnesses_) {
      if (!witness.status || witness.status->call.empty()) continue;
      if (!usual || votes[witness.status->call] > votes[usual->status->call]) usual = &witness;
    }
    for (const Witness& witness : witnesses_) {
      if (!witness.status || witness.status->call.empty() || witness.status->call == usual->status->call) continue;
      return verdict(ErrorCode::mismatch, witness,
                     fmt::format("{} called {} while {} called {}", witness.name, witness.status->call, usual->name,
                                 usual->status->call));
    }
    return std::nullopt;
  }

  static std::string list(const std::vector<int>& ranks) { return fmt::format("{{{}}}", fmt::join(ranks, ", ")); }

  std::optional<Verdict> different_lists() const {
    for (const Witness& witness : witnesses_) {
      if (!witness.status || witness.status->presence != Presence::absent || witness.status->rival.empty()) continue;
      return verdict(ErrorCode::mismatch, witness,
                     fmt::format("{} made a sub-group of the ranks {} and waits there, while others wait for it in one "
                                 "of the ranks {}: all members must give the same list in the same order",
                                 witness.name, list(witness.status->rival), list(report_.members)));
    }
    return std::nullopt;
  }

  std::optional<Verdict> waits_for_one_who_left() const {
    for (const Witness& witness : witnesses_) {
      if (!witness.is_gone() || !is_awaited(witness.rank)) continue;
      // Its last words may have been on their way when the report was made.
      if (!witness.known_gone && !report_.overdue) continue;
      return verdict(ErrorCode::peer_lost, witness,
                     fmt::format("{} has left: it {} while others still wait for it in {}", witness.name,
                                 witness.left ? "ended" : "closed its communicator", report_.call));
    }
    return std::nullopt;
  }

  std::optional<Verdict> silent() const {
    for (const Witness& witness : witnesses_) {
      if (witness.status || witness.left) continue;
      return verdict(ErrorCode::timeout, witness,
                     fmt::format("{} does not answer, its last sign of life is {:.1f} s old: its process is stopped or "
                                 "starved, or its host or network is down",
                                 witness.name, witness.silent_seconds));
    }
    return std::nullopt;
  }

  std::string elsewhere(const Status& status) const {
    if (!status.doing.empty()) return "it waits in " + status.doing;
    return report_.operation > 0 ? fmt::format("its last call there was #{}, which has ended", status.finished)
                                 : "it waits for nothing there";
  }

  std::optional<Verdict> not_in_the_call() const {
    for (const Witness& witness : witnesses_) {
      if (!witness.status) continue;
      const Status& status = *witness.status;
      if (status.presence == Presence::closed)
        return verdict(ErrorCode::timeout, witness,
                       fmt::format("{} is alive but has closed this communicator", witness.name));
      if (status.presence == Presence::absent)
        return verdict(ErrorCode::timeout, witness,
                       fmt::format("{} is alive but has not made this communicator", witness.name));
      if (report_.operation > 0 && status.started < report_.operation)
        return verdict(
            ErrorCode::timeout, witness,
            fmt::format("{} is alive but has not called {}: {}", witness.name, report_.call, elsewhere(status)));
    }
    return std::nullopt;
  }

  /// Follows "waits for" from each rank until a rank comes again.
  std::optional<Verdict> circle() const {
    for (const Witness& start : witnesses_) {
      std::vector<const Witness*> path;
      const Witness* at = &start;
      while (at && at->status && at->status->awaited.size() == 1 && std::ranges::count(path, at) == 0) {
        path.push_back(at);
        at = find(at->status->awaited.front());
      }
      const auto begin = std::ranges::find(path, at);
      if (begin == path.end()) continue;
      std::string text = "ranks wait for each other in a circle: ";
      for (auto next = begin; next != path.end(); ++next)
        text += fmt::format("{} waits in {}; ", (*next)->name, (*next)->status->doing);
      return verdict(ErrorCode::timeout, **begin, text + "let one of them receive first, or use isend or irecv");
    }
    return std::nullopt;
  }

  std::optional<Verdict> slowest() const {
    const Witness* slow = nullptr;
    for (const Witness& witness : witnesses_) {
      if (!witness.status) continue;
      if (report_.operation == 0 ? is_awaited(witness.rank) && witness.status->awaited.empty()
                                 : witness.status->finished < report_.operation) {
        if (!slow || witness.status->awaited.size() < slow->status->awaited.size() ||
            (witness.status->awaited.size() == slow->status->awaited.size() &&
             witness.status->steps_done < slow->status->steps_done))
          slow = &witness;
      }
    }
    if (!slow)
      return Verdict{report_.group, ErrorCode::timeout, -1, report_.operation,
                     report_.operation == 0
                         ? "all its ranks answer, and none has anything left to do: what is awaited was never sent"
                         : "all ranks that answer have ended the call meanwhile: they were late, not stuck; a longer "
                           "timeout lets it end"};
    const Status& status = *slow->status;
    if (report_.operation == 0)
      return verdict(ErrorCode::timeout, *slow,
                     fmt::format("{} is awaited there, is alive, and waits for nothing itself: it has not made the "
                                 "matching call",
                                 slow->name));
    return verdict(ErrorCode::timeout, *slow,
                   fmt::format("every rank is in the call; {} is the furthest behind, with {} of {} steps done: it is "
                               "slow, or its network is",
                               slow->name, status.steps_done, status.steps));
  }

  const Report& report_;
  std::span<const Witness> witnesses_;
};

}  // namespace

std::optional<Verdict> judge(const Report& report, std::span<const Witness> witnesses) {
  return Court{report, witnesses}.find();
}

}  // namespace tutti::detail
