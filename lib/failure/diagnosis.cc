// From the surest finding to the least sure:
//
//   1  two ranks called different things under one number, or gave different counts   at any time
//   2  sub-groups were made from different lists                  at any time
//   3  somebody waits for a rank that has closed the communicator      at any time, if nothing has moved since
//   4  a rank does not answer                                          at the deadline, like all that follow
//   5  a rank is alive but has not called
//   6  of a send or receive: ranks wait for each other in a circle, or the peer has not made the matching call
//   7  of a collective: all are in it, and one is the furthest behind

#include "lib/failure/diagnosis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/failure/recent_counts.h"

namespace tutti::detail {
namespace {

using Presence = Status::Presence;
using Wait = Status::Wait;
using Path = std::vector<const Witness*>;

std::string list(const std::vector<int>& ranks) { return fmt::format("{{{}}}", fmt::join(ranks, ", ")); }

/// "waits in recv of 10 x i32 from rank 1 (tag 9)".
std::string occupation(const Status& status) {
  if (status.wait == Wait::nothing) return "is in no call of tutti";
  const std::string text =
      status.asynchronous ? fmt::format("has {} under way", status.doing) : "waits in " + status.doing;
  return status.unclaimed.empty() ? text
                                  : fmt::format("{} ({} has come, but no receive takes it)", text, status.unclaimed);
}

/// What ends a circle depends on what its members wait for.
const char* advice(const Path& circle) {
  const auto count = [&](Wait wait) {
    return std::ranges::count_if(circle, [wait](const Witness* one) { return one->status->wait == wait; });
  };
  const auto all = static_cast<std::ptrdiff_t>(circle.size());
  if (std::ranges::any_of(circle, [](const Witness* one) { return !one->status->unclaimed.empty(); }))
    return "give a send and its receive the same tag, and let receives come in the order of their sends";
  if (count(Wait::send) == all) return "let one of them receive first, or use isend or irecv";
  if (count(Wait::receive) == all) return "let one of them send first";
  if (count(Wait::send) + count(Wait::receive) == all)
    return "one of them sends what the other receives, so that the data is still on its way: a longer timeout lets it "
           "arrive";
  return "a collective ends only when its members have called it, and a receive only by a send: let all make these "
         "calls in the same order";
}

class Court {
 public:
  Court(const Report& report, std::span<const Witness> all)
      : report_(report),
        all_(all),
        witnesses_(all.first(static_cast<std::size_t>(std::ranges::count(all, true, &Witness::is_member)))) {}

  std::optional<Verdict> find() const {
    if (auto verdict = different_calls()) return verdict;
    if (auto verdict = different_shares()) return verdict;
    if (auto verdict = different_counts()) return verdict;
    if (auto verdict = different_lists()) return verdict;
    if (report_.stalled || report_.overdue)
      if (auto verdict = waits_for_one_who_left()) return verdict;
    if (!report_.overdue) return std::nullopt;
    if (auto verdict = silent()) return verdict;
    if (auto verdict = not_in_the_call()) return verdict;
    if (report_.operation > 0) return slowest();
    if (auto verdict = circle()) return verdict;
    return unmatched();
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

  /// Of a _v call whose counts all ranks give alike: as different_calls() does.
  std::optional<Verdict> different_shares() const {
    const auto knows = [](const Witness& witness) {
      return witness.status && !witness.status->sends.empty() && witness.status->receives.empty();
    };
    std::map<std::vector<std::uint64_t>, int> votes;
    const Witness* usual = nullptr;
    for (const Witness& witness : witnesses_)
      if (knows(witness)) ++votes[witness.status->sends];
    for (const Witness& witness : witnesses_)
      if (knows(witness) && (!usual || votes[witness.status->sends] > votes[usual->status->sends])) usual = &witness;
    for (const Witness& witness : witnesses_) {
      if (!knows(witness) || witness.status->sends == usual->status->sends) continue;
      return verdict(ErrorCode::mismatch, witness,
                     fmt::format("{} called {} with the counts {{{}}} while {} called it with {{{}}}: all ranks must "
                                 "give the same",
                                 witness.name, witness.status->call, list_of(witness.status->sends), usual->name,
                                 list_of(usual->status->sends)));
    }
    return std::nullopt;
  }

  /// Of an all_to_all_v, pair by pair. Whose count is wrong nobody can tell; who sends is named, since who receives is
  /// the one that waits if too little comes.
  std::optional<Verdict> different_counts() const {
    const auto knows = [this](const Witness& witness) {
      return witness.status && witness.status->receives.size() == witnesses_.size() &&
             witness.status->sends.size() == witnesses_.size();
    };
    for (std::size_t from = 0; from < witnesses_.size(); ++from) {
      if (!knows(witnesses_[from])) continue;
      for (std::size_t to = 0; to < witnesses_.size(); ++to) {
        if (!knows(witnesses_[to])) continue;
        const std::uint64_t sent = witnesses_[from].status->sends[to];
        const std::uint64_t expected = witnesses_[to].status->receives[from];
        if (sent == expected) continue;
        return verdict(ErrorCode::mismatch, witnesses_[from],
                       unequal_counts(report_.call, {static_cast<int>(from), witnesses_[from].name, sent},
                                      {static_cast<int>(to), witnesses_[to].name, expected}));
      }
    }
    return std::nullopt;
  }

  /// The list of which a rank has made a sub-group, as far as it is known here; null: it is not.
  const std::vector<int>* list_of_group(const Witness& witness) const {
    if (!witness.status) return nullptr;
    if (witness.is_member && witness.status->presence != Presence::absent) return &report_.members;
    return witness.status->rival.empty() ? nullptr : &witness.status->rival;
  }

  /// The list that most ranks gave is taken for the right one; of two equally common ones, that of the lower rank.
  std::optional<Verdict> different_lists() const {
    std::map<std::vector<int>, int> votes;
    std::map<int, const Witness*> givers;  // in the order of their ranks
    for (const Witness& witness : all_) {
      if (const std::vector<int>* const members = list_of_group(witness)) {
        ++votes[*members];
        givers[witness.rank] = &witness;
      }
    }
    if (votes.size() < 2) return std::nullopt;
    const Witness* usual = nullptr;
    for (const auto& [rank, giver] : givers)
      if (!usual || votes[*list_of_group(*giver)] > votes[*list_of_group(*usual)]) usual = giver;
    const std::vector<int>& right = *list_of_group(*usual);
    for (const auto& [rank, giver] : givers) {
      const std::vector<int>& other = *list_of_group(*giver);
      if (other == right) continue;
      const int more = votes[right] - 1;
      return verdict(
          ErrorCode::mismatch, *giver,
          fmt::format("{} made a sub-group of the ranks {} of the job while {}{} made one of the ranks {}: all members "
                      "must give the same list in the same order",
                      giver->job_name, list(other), usual->job_name, more > 0 ? fmt::format(" and {} more", more) : "",
                      list(right)));
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
    if (status.wait == Wait::nothing && report_.operation > 0)
      return fmt::format("its last call there was #{}, which has ended", status.finished);
    return "it " + occupation(status);
  }

  std::optional<Verdict> not_in_the_call() const {
    for (const Witness& witness : witnesses_) {
      if (!witness.status) continue;
      const Status& status = *witness.status;
      if (status.presence == Presence::closed)
        return verdict(
            ErrorCode::timeout, witness,
            fmt::format("{} is alive but has closed this communicator: it {}", witness.name, occupation(status)));
      if (status.presence == Presence::absent)
        return verdict(
            ErrorCode::timeout, witness,
            fmt::format("{} is alive but has not made this communicator: it {}", witness.name, occupation(status)));
      if (report_.operation > 0 && status.started < report_.operation)
        return verdict(
            ErrorCode::timeout, witness,
            fmt::format("{} is alive but has not called {}: {}", witness.name, report_.call, elsewhere(status)));
    }
    return std::nullopt;
  }

  /// Follows "waits for" from `start` until a rank comes again, which is returned, or until nobody is left to follow.
  const Witness* follow(const Witness& start, Path& path) const {
    const Witness* at = &start;
    while (at && at->status && at->status->awaited.size() == 1 && std::ranges::count(path, at) == 0) {
      path.push_back(at);
      at = find(at->status->awaited.front());
    }
    const bool again = std::ranges::count(path, at) > 0;
    if (!again && at) path.push_back(at);
    return again ? at : nullptr;
  }

  /// Empty: there is none.
  Path find_circle() const {
    for (const Witness& start : witnesses_) {
      Path path;
      if (const Witness* const first = follow(start, path)) return {std::ranges::find(path, first), path.end()};
    }
    return {};
  }

  std::optional<Verdict> circle() const {
    const Path circle = find_circle();
    if (circle.empty()) return std::nullopt;
    std::string text = "ranks wait for each other in a circle: ";
    for (const Witness* one : circle) text += fmt::format("{} {}; ", one->name, occupation(*one->status));
    return verdict(ErrorCode::timeout, *circle.front(), text + advice(circle));
  }

  /// The peer of a send or receive has not made the matching call, or waits for one who has not.
  Verdict unmatched() const {
    const Witness* const reporter = find(report_.reporter);
    const Witness* const peer = find(report_.peer);
    if (!reporter || !reporter->status || reporter->status->wait == Wait::nothing ||
        (peer && std::ranges::count(reporter->status->awaited, peer->rank) == 0))
      return nobody("it has ended meanwhile: it was late, not stuck; a longer timeout lets it end in time");
    if (!peer)
      return nobody(fmt::format("no rank has made the call that matches {}: {}", report_.call, all_but(*reporter)));
    Path path;
    follow(*peer, path);
    const Witness& last = *path.back();
    const std::string& call = path.size() == 1 ? report_.call : path[path.size() - 2]->status->doing;
    std::string text = fmt::format("{} is alive but has not made the call that matches {}: it {}", last.name, call,
                                   last.status ? occupation(*last.status) : "has left");
    if (!reporter->status->unclaimed.empty())
      text += fmt::format("; {} has come, but no receive takes it: compare the tags", reporter->status->unclaimed);
    return verdict(ErrorCode::timeout, last, text);
  }

  Verdict nobody(std::string text) const {
    return {report_.group, ErrorCode::timeout, -1, report_.operation, std::move(text)};
  }

  /// What the other ranks do, as far as it is worth reading.
  std::string all_but(const Witness& reporter) const {
    constexpr std::size_t most = 8;
    std::vector<std::string> others;
    for (const Witness& witness : witnesses_)
      if (&witness != &reporter && witness.status && others.size() < most)
        others.push_back(witness.name + " " + occupation(*witness.status));
    return others.empty() ? "there is no other rank" : fmt::format("{}", fmt::join(others, "; "));
  }

  std::optional<Verdict> slowest() const {
    const Witness* slow = nullptr;
    for (const Witness& witness : witnesses_) {
      if (!witness.status || witness.status->finished >= report_.operation) continue;
      if (!slow || witness.status->awaited.size() < slow->status->awaited.size() ||
          (witness.status->awaited.size() == slow->status->awaited.size() &&
           witness.status->steps_done < slow->status->steps_done))
        slow = &witness;
    }
    if (!slow)
      return nobody(
          "all ranks that answer have ended the call meanwhile: they were late, not stuck; a longer timeout lets it "
          "end");
    const Status& status = *slow->status;
    const std::string progress =
        status.in_rounds ? fmt::format("in round {} of {}", std::min(status.steps_done + 1, status.steps), status.steps)
                         : fmt::format("with {} of {} steps done", status.steps_done, status.steps);
    std::string text =
        fmt::format("every rank is in the call; {} is the furthest behind, {}: it is slow, or its network is",
                    slow->name, progress);
    if (const Path circle = find_circle(); report_.stalled && !circle.empty()) {
      std::vector<std::string> names;
      for (const Witness* one : circle) names.push_back(one->name);
      text += fmt::format(
          ". Within the call these ranks wait for each other in a circle: {}. No plan that has been proved does so for "
          "long: if the algorithm is a new one, prove it with `tutti plan --check`; else a longer timeout lets it end",
          fmt::join(names, ", "));
    }
    return verdict(ErrorCode::timeout, *slow, text);
  }

  const Report& report_;
  std::span<const Witness> all_;
  std::span<const Witness> witnesses_;  // the group's members, in its order
};

}  // namespace

std::optional<Verdict> judge(const Report& report, std::span<const Witness> witnesses) {
  return Court{report, witnesses}.find();
}

}  // namespace tutti::detail
