// Findings, from the most certain to the least certain:
//
//   1  ranks called different things, or gave different counts        at any time
//   2  sub-groups were made from different lists                      at any time
//   3  a rank waits for one that has closed the communicator          at any time, if nothing has moved since
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
using Path = std::vector<const RankView*>;

std::string in_braces(const std::vector<int>& ranks) { return fmt::format("{{{}}}", fmt::join(ranks, ", ")); }

/// What a rank does: "waits in recv of 10 x i32 from rank 1 (tag 9)".
std::string occupation(const Status& status) {
  if (status.wait == Wait::nothing) return "is in no call of tutti";
  const std::string text =
      status.asynchronous ? fmt::format("has {} under way", status.doing) : "waits in " + status.doing;
  return status.unclaimed.empty() ? text
                                  : fmt::format("{} ({} has come, but no receive takes it)", text, status.unclaimed);
}

/// How to avoid a circle of waiting ranks. That depends on their calls.
const char* advice(const Path& circle) {
  const auto count = [&](Wait wait) {
    return std::ranges::count_if(circle, [wait](const RankView* one) { return one->status->wait == wait; });
  };
  const auto all = static_cast<std::ptrdiff_t>(circle.size());
  if (std::ranges::any_of(circle, [](const RankView* one) { return !one->status->unclaimed.empty(); }))
    return "give a send and its receive the same tag, and let receives come in the order of their sends";
  if (count(Wait::send) == all) return "let one of them receive first, or use isend or irecv";
  if (count(Wait::receive) == all) return "let one of them send first";
  if (count(Wait::send) + count(Wait::receive) == all)
    return "one of them sends what the other receives, so that the data is still on its way: a longer timeout lets it "
           "arrive";
  return "a collective ends only when its members have called it, and a receive only by a send: let all make these "
         "calls in the same order";
}

class Diagnosis {
 public:
  Diagnosis(const Report& report, std::span<const RankView> all)
      : report_(report),
        all_(all),
        views_(all.first(static_cast<std::size_t>(std::ranges::count(all, true, &RankView::is_member)))) {}

  std::optional<Failure> find() const {
    if (auto failure = different_calls()) return failure;
    if (auto failure = different_shares()) return failure;
    if (auto failure = different_counts()) return failure;
    if (auto failure = different_lists()) return failure;
    if (report_.stalled || report_.overdue)
      if (auto failure = waits_for_one_who_left()) return failure;
    if (!report_.overdue) return std::nullopt;
    if (auto failure = silent()) return failure;
    if (auto failure = not_in_the_call()) return failure;
    if (report_.operation > 0) return slowest();
    if (auto failure = circle()) return failure;
    return unmatched();
  }

 private:
  Failure failure(ErrorCode code, const RankView& culprit, std::string text) const {
    return {report_.group, code, culprit.rank, report_.operation, std::move(text)};
  }

  const RankView* find(int rank) const {
    const auto found = std::ranges::find(views_, rank, &RankView::rank);
    return found == views_.end() ? nullptr : &*found;
  }

  /// By somebody who has read all that it has sent, or at the deadline by anybody.
  bool is_awaited_in_vain(int rank) const {
    return std::ranges::any_of(views_, [this, rank](const RankView& view) {
      return view.status && std::ranges::count(view.status->awaited, rank) > 0 &&
             (report_.overdue || std::ranges::count(view.status->unread, rank) == 0);
    });
  }

  /// What to do if two calls differ in their algorithm or in the memory of their buffers; else empty.
  static std::string_view remedy(std::string_view one, std::string_view other) {
    const auto differ = [&](std::string_view ending) { return one.ends_with(ending) != other.ends_with(ending); };
    if (differ(on_streams)) return other_memory;
    if (differ(in_allocated_memory)) return only_one_allocated;
    const auto without_algorithm = [](std::string_view call) { return call.substr(0, call.find(" with ")); };
    if (without_algorithm(one) != without_algorithm(other)) return "";
    const auto uses_tasks = [](std::string_view call) { return call.find(as_tasks) != call.npos; };
    return uses_tasks(one) || uses_tasks(other) ? other_tasks : other_algorithm;
  }

  /// Ranks that called different things. The call of most ranks is taken for the right one; if two are equally common,
  /// that of the lower rank.
  std::optional<Failure> different_calls() const {
    std::map<std::string, int> votes;
    for (const RankView& view : views_)
      if (view.status && !view.status->call.empty()) ++votes[view.status->call];
    if (votes.size() < 2) return std::nullopt;
    const RankView* usual = nullptr;
    for (const RankView& view : views_) {
      if (!view.status || view.status->call.empty()) continue;
      if (!usual || votes[view.status->call] > votes[usual->status->call]) usual = &view;
    }
    for (const RankView& view : views_) {
      if (!view.status || view.status->call.empty() || view.status->call == usual->status->call) continue;
      return failure(ErrorCode::mismatch, view,
                     fmt::format("{} called {} while {} called {}{}", view.name, view.status->call, usual->name,
                                 usual->status->call, remedy(view.status->call, usual->status->call)));
    }
    return std::nullopt;
  }

  /// The same for the counts of a _v call, which all ranks must give alike.
  std::optional<Failure> different_shares() const {
    const auto knows = [](const RankView& view) {
      return view.status && !view.status->sends.empty() && view.status->receives.empty();
    };
    std::map<std::vector<std::uint64_t>, int> votes;
    const RankView* usual = nullptr;
    for (const RankView& view : views_)
      if (knows(view)) ++votes[view.status->sends];
    for (const RankView& view : views_)
      if (knows(view) && (!usual || votes[view.status->sends] > votes[usual->status->sends])) usual = &view;
    for (const RankView& view : views_) {
      if (!knows(view) || view.status->sends == usual->status->sends) continue;
      return failure(ErrorCode::mismatch, view,
                     fmt::format("{} called {} with the counts {{{}}} while {} called it with {{{}}}: all ranks must "
                                 "give the same",
                                 view.name, view.status->call, list_of(view.status->sends), usual->name,
                                 list_of(usual->status->sends)));
    }
    return std::nullopt;
  }

  /// The counts of an all_to_all_v, pair by pair. If two differ, either may be wrong. The sender is named, since the
  /// receiver waits if too little comes.
  std::optional<Failure> different_counts() const {
    const auto knows = [this](const RankView& view) {
      return view.status && view.status->receives.size() == views_.size() && view.status->sends.size() == views_.size();
    };
    for (std::size_t from = 0; from < views_.size(); ++from) {
      if (!knows(views_[from])) continue;
      for (std::size_t to = 0; to < views_.size(); ++to) {
        if (!knows(views_[to])) continue;
        const std::uint64_t sent = views_[from].status->sends[to];
        const std::uint64_t expected = views_[to].status->receives[from];
        if (sent == expected) continue;
        return failure(ErrorCode::mismatch, views_[from],
                       unequal_counts(views_[from].status->call, {static_cast<int>(from), views_[from].name, sent},
                                      {static_cast<int>(to), views_[to].name, expected}));
      }
    }
    return std::nullopt;
  }

  /// The list from which a rank has made its sub-group; null: it is not known.
  const std::vector<int>* list_of_group(const RankView& view) const {
    if (!view.status) return nullptr;
    if (view.is_member && view.status->presence != Presence::absent) return &report_.members;
    return view.status->other_members.empty() ? nullptr : &view.status->other_members;
  }

  /// Ranks that made the sub-group from different lists. The list of most ranks is taken for the right one; if two are
  /// equally common, that of the lower rank.
  std::optional<Failure> different_lists() const {
    std::map<std::vector<int>, int> votes;
    std::map<int, const RankView*> givers;  // in rank order
    for (const RankView& view : all_) {
      if (const std::vector<int>* const members = list_of_group(view)) {
        ++votes[*members];
        givers[view.rank] = &view;
      }
    }
    if (votes.size() < 2) return std::nullopt;
    const RankView* usual = nullptr;
    for (const auto& [rank, giver] : givers)
      if (!usual || votes[*list_of_group(*giver)] > votes[*list_of_group(*usual)]) usual = giver;
    const std::vector<int>& right = *list_of_group(*usual);
    for (const auto& [rank, giver] : givers) {
      const std::vector<int>& other = *list_of_group(*giver);
      if (other == right) continue;
      const int more = votes[right] - 1;
      return failure(
          ErrorCode::mismatch, *giver,
          fmt::format("{} made a sub-group of the ranks {} of the job while {}{} made one of the ranks {}: all members "
                      "must give the same list in the same order",
                      giver->job_name, in_braces(other), usual->job_name,
                      more > 0 ? fmt::format(" and {} more", more) : "", in_braces(right)));
    }
    return std::nullopt;
  }

  std::optional<Failure> waits_for_one_who_left() const {
    for (const RankView& view : views_) {
      if (!view.is_gone() || !is_awaited_in_vain(view.rank)) continue;
      // Its last message may have been on its way when the report was made.
      if (!view.known_gone && !report_.overdue) continue;
      return failure(ErrorCode::peer_lost, view,
                     fmt::format("{} has left: it {} while others still wait for it in {}", view.name,
                                 view.left ? "ended" : "closed its communicator", report_.call));
    }
    return std::nullopt;
  }

  std::optional<Failure> silent() const {
    for (const RankView& view : views_) {
      if (view.status || view.left) continue;
      return failure(
          ErrorCode::timeout, view,
          fmt::format("{} does not answer, and its last heartbeat is {:.1f} s old: its process is stopped or "
                      "starved, or its host or network is down",
                      view.name, view.silent_seconds));
    }
    return std::nullopt;
  }

  std::string elsewhere(const Status& status) const {
    if (status.wait == Wait::nothing && report_.operation > 0)
      return status.finished == 0 ? "it has made no collective call there"
                                  : fmt::format("its last call there was #{}, which has ended", status.finished);
    return "it " + occupation(status);
  }

  std::optional<Failure> not_in_the_call() const {
    for (const RankView& view : views_) {
      if (!view.status) continue;
      const Status& status = *view.status;
      if (status.presence == Presence::closed)
        return failure(
            ErrorCode::timeout, view,
            fmt::format("{} is alive but has closed this communicator: it {}", view.name, occupation(status)));
      if (status.presence == Presence::absent)
        return failure(
            ErrorCode::timeout, view,
            fmt::format("{} is alive but has not made this communicator: it {}", view.name, occupation(status)));
      if (report_.operation > 0 && status.started < report_.operation)
        return failure(
            ErrorCode::timeout, view,
            fmt::format("{} is alive but has not called {}: {}", view.name, report_.call, elsewhere(status)));
    }
    return std::nullopt;
  }

  /// Follows the ranks that wait for each other from `start`. Returns the first rank that appears twice; null: the path
  /// ends.
  const RankView* follow(const RankView& start, Path& path) const {
    const RankView* at = &start;
    while (at && at->status && at->status->awaited.size() == 1 && std::ranges::count(path, at) == 0) {
      path.push_back(at);
      at = find(at->status->awaited.front());
    }
    const bool again = std::ranges::count(path, at) > 0;
    if (!again && at) path.push_back(at);
    return again ? at : nullptr;
  }

  /// A circle of waiting ranks; empty: there is none.
  Path find_circle() const {
    for (const RankView& start : views_) {
      Path path;
      if (const RankView* const first = follow(start, path)) return {std::ranges::find(path, first), path.end()};
    }
    return {};
  }

  std::optional<Failure> circle() const {
    const Path circle = find_circle();
    if (circle.empty()) return std::nullopt;
    std::string text = "ranks wait for each other in a circle: ";
    for (const RankView* one : circle) text += fmt::format("{} {}; ", one->name, occupation(*one->status));
    return failure(ErrorCode::timeout, *circle.front(), text + advice(circle));
  }

  /// The finding for a send or receive whose peer has not made the matching call, or waits for a rank that has not.
  Failure unmatched() const {
    const RankView* const reporter = find(report_.reporter);
    const RankView* const peer = find(report_.peer);
    if (!reporter || !reporter->status || reporter->status->wait == Wait::nothing ||
        (peer && std::ranges::count(reporter->status->awaited, peer->rank) == 0))
      return nobody("it has ended meanwhile: it was late, not stuck; a longer timeout lets it end in time");
    if (!peer)
      return nobody(fmt::format("no rank has made the call that matches {}: {}", report_.call, all_but(*reporter)));
    Path path;
    follow(*peer, path);
    const RankView& last = *path.back();
    const std::string& call = path.size() == 1 ? report_.call : path[path.size() - 2]->status->doing;
    std::string text = fmt::format("{} is alive but has not made the call that matches {}: it {}", last.name, call,
                                   last.status ? occupation(*last.status) : "has left");
    if (!reporter->status->unclaimed.empty())
      text += fmt::format("; {} has come, but no receive takes it: compare the tags", reporter->status->unclaimed);
    return failure(ErrorCode::timeout, last, text);
  }

  Failure nobody(std::string text) const {
    return {report_.group, ErrorCode::timeout, -1, report_.operation, std::move(text)};
  }

  /// What the other ranks do; only the first few of them.
  std::string all_but(const RankView& reporter) const {
    constexpr std::size_t most = 8;
    std::vector<std::string> others;
    for (const RankView& view : views_)
      if (&view != &reporter && view.status && others.size() < most)
        others.push_back(view.name + " " + occupation(*view.status));
    return others.empty() ? "there is no other rank" : fmt::format("{}", fmt::join(others, "; "));
  }

  std::optional<Failure> slowest() const {
    const RankView* slow = nullptr;
    for (const RankView& view : views_) {
      if (!view.status || view.status->finished >= report_.operation) continue;
      if (!slow || view.status->awaited.size() < slow->status->awaited.size() ||
          (view.status->awaited.size() == slow->status->awaited.size() &&
           view.status->steps_done < slow->status->steps_done))
        slow = &view;
    }
    if (!slow)
      return nobody(
          "all ranks that answer have ended the call meanwhile: they were late, not stuck; a longer timeout lets it "
          "end");
    const Status& status = *slow->status;
    const std::string progress =
        status.in_rounds ? fmt::format("in round {} of {}", std::min(status.steps_done + 1, status.steps), status.steps)
                         : fmt::format("with {} of {} steps done", status.steps_done, status.steps);
    std::string text = fmt::format("every rank is in the call; {} is the furthest behind, {}: {}", slow->name, progress,
                                   status.on_stream ? "its stream has other work to do before, or its GPU is slow"
                                                    : "it is slow, or its network is");
    if (const Path circle = find_circle(); report_.stalled && !circle.empty()) {
      std::vector<std::string> names;
      for (const RankView* one : circle) names.push_back(one->name);
      text += fmt::format(
          ". Within the call these ranks wait for each other in a circle: {}. No plan that has been proved does so for "
          "long: if the algorithm is a new one, prove it with `tutti plan --check`; else a longer timeout lets it end",
          fmt::join(names, ", "));
    }
    return failure(ErrorCode::timeout, *slow, text);
  }

  const Report& report_;
  std::span<const RankView> all_;
  std::span<const RankView> views_;  // the members of the group, in its order
};

}  // namespace

std::optional<Failure> diagnose(const Report& report, std::span<const RankView> views) {
  return Diagnosis{report, views}.find();
}

}  // namespace tutti::detail
