// Compares the boxes of several ranks. Operations of a communicator have the same numbers on all its members, so the
// ranks wait in the oldest operation that some member has begun and not finished. Each member has not entered it, is in
// it, has failed in it, or has finished it. A box keeps a rank's last operations only: if none of them is of the
// communicator, and there were older ones, nothing is known of that rank. Operations of an earlier world do not count.

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/blackbox/words.h"
#include "tutti/options.h"

namespace tutti::cli {
namespace {

using black_box::CallRecord;
using black_box::OperationRecord;
using black_box::Snapshot;
using black_box::State;

constexpr std::size_t most_messages_told = 8;

bool is_collective(const OperationRecord& entry) { return entry.call.operation > 0; }

using Entries = std::span<const OperationRecord>;

/// The operations of the world that the rank is in. Those of an earlier one have the same numbers and communicators.
Entries entries_of(const Snapshot& box) {
  const auto first = std::find_if(box.entries.begin(), box.entries.end(),
                                  [&](const OperationRecord& entry) { return entry.number > box.earlier; });
  return {first, box.entries.end()};
}

struct Member {
  const Snapshot* box;
  int rank;  ///< in the communicator

  /// Its record of operation `number` there; null: not entered, or overwritten.
  const OperationRecord* entry(std::uint64_t group, std::uint64_t number) const {
    for (const OperationRecord& one : entries_of(*box))
      if (one.call.group == group && one.call.operation == number) return &one;
    return nullptr;
  }
  /// The newest of its collectives there; null: none that is still recorded.
  const OperationRecord* last(std::uint64_t group) const {
    const Entries entries = entries_of(*box);
    for (auto one = entries.rbegin(); one != entries.rend(); ++one)
      if (one->call.group == group && is_collective(*one)) return &*one;
    return nullptr;
  }
  /// Its oldest operations have been overwritten.
  bool has_forgotten() const {
    const Entries entries = entries_of(*box);
    return !entries.empty() && entries.front().number > box->earlier + 1;
  }
};

using Members = std::vector<Member>;

/// "rank 2", "ranks 0, 1 and 3"
std::string who(const Members& members) {
  std::string text = members.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < members.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == members.size() ? " and " : ", ", members[i].box->rank);
  return text;
}

std::string with_algorithm(const CallRecord& call) {
  if (call.algorithm[0] == '\0') return describe(call);
  return fmt::format("{} with {}", describe(call), black_box::printable(call.algorithm.data()));
}

auto as_called(const CallRecord& call) {
  return std::tie(call.collective, call.flags, call.type, call.op, call.count, call.root, call.algorithm);
}

Members sorted(Members members) {
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.rank < b.rank; });
  return members;
}

/// The oldest operation there that some member has begun and not finished; 0: none.
std::uint64_t oldest_unfinished(std::uint64_t group, const Members& members) {
  std::uint64_t oldest = 0;
  for (const Member& member : members)
    for (const OperationRecord& entry : entries_of(*member.box))
      if (entry.call.group == group && is_collective(entry) && entry.state != State::done)
        oldest = oldest == 0 ? entry.call.operation : std::min(oldest, entry.call.operation);
  return oldest;
}

/// The members of one communicator, sorted by their state in one operation.
class JointCall {
 public:
  JointCall(std::uint64_t group, std::uint64_t operation, const Members& members, Tense tense)
      : group_(group), past_(tense == Tense::past) {
    if (operation == 0) return;
    for (const Member& member : members) {
      const OperationRecord* const entry = member.entry(group, operation);
      const OperationRecord* const last = member.last(group);
      if (!entry) {
        if (!last && member.has_forgotten())
          unknown_.push_back(member);
        else
          (last && last->call.operation > operation ? through_ : behind_).push_back(member);
        continue;
      }
      entries_.push_back({member, entry});
      (entry->state == State::done ? through_ : entry->state == State::started ? inside_ : failed_).push_back(member);
      if (entry->state == State::done) continue;
      waited_ = std::max(waited_, seconds_in(*entry, *member.box));
      is_timed_ = is_timed_ && is_timed(*entry, *member.box);
    }
    if (!members.front().box->groups.empty() && members.front().box->groups.front().group != group)
      where_ = " in the group of " + who(members);
  }

  double waited() const { return waited_; }

  /// Empty: nothing to report.
  std::string finding() const {
    if (entries_.empty()) return "";
    if (differ()) return difference();
    if (!behind_.empty()) return lagging();
    if (!inside_.empty() && !failed_.empty())
      return fmt::format("{} {} still in {}, {}, when it failed on {}", who(inside_), is(inside_), call(),
                         how_far(*fewest()), who(failed_));
    if (inside_.empty()) return "";
    if (!through_.empty() || !unknown_.empty())
      return fmt::format("{} {} in {}{}, {}", who(inside_), is(inside_), call(), since(), how_far(*fewest())) +
             (through_.empty() ? "" : fmt::format("; {} {} finished it", who(through_), has(through_))) + forgotten();
    return fmt::format("{} {} in {}{}; rank {} got least far, {}", who(inside_), is(inside_), call(), since(),
                       fewest()->member.box->rank, how_far(*fewest()));
  }

  /// The progress of `one`, which is in the operation, and where the others were.
  std::string around(const Snapshot& one) const {
    const auto seen =
        std::find_if(entries_.begin(), entries_.end(), [&](const Seen& it) { return it.member.box == &one; });
    Members same;
    for (const Members* members : {&inside_, &failed_})
      std::copy_if(members->begin(), members->end(), std::back_inserter(same),
                   [&](const Member& member) { return member.box != &one; });
    std::string text = fmt::format("rank {} was in {}, {}", one.rank, call(), how_far(*seen));
    if (!same.empty()) text += fmt::format("; so {} {}", is(same), who(sorted(same)));
    if (!behind_.empty()) text += fmt::format("; {} had not entered it", who(behind_));
    if (!through_.empty()) text += fmt::format("; {} had finished it", who(through_));
    return text + forgotten();
  }

 private:
  struct Seen {
    Member member;
    const OperationRecord* entry;
  };

  const char* is(const Members& members) const {
    return members.size() == 1 ? (past_ ? "was" : "is") : (past_ ? "were" : "are");
  }
  const char* has(const Members& members) const { return past_ ? "had" : members.size() == 1 ? "has" : "have"; }
  /// Empty if enough is known of all ranks.
  std::string forgotten() const {
    if (unknown_.empty()) return "";
    return fmt::format("; {} {} no record of it among {} last {} operations", who(unknown_), has(unknown_),
                       unknown_.size() == 1 ? "its" : "their", black_box::record_count);
  }
  /// Empty where that is not known.
  std::string since() const { return is_timed_ ? fmt::format(" {} {:.1f} s", past_ ? "for" : "since", waited_) : ""; }
  std::string call() const { return with_algorithm(entries_.front().entry->call) + where_; }
  static std::string how_far(const Seen& seen) {
    const std::uint32_t done = seen.entry->parts_done, all = seen.entry->call.parts;
    if ((seen.entry->call.flags & black_box::Flags::on_board) != 0)
      return fmt::format("in round {} of {}, {} bytes moved", std::min(done + 1, all), all, seen.entry->bytes);
    return fmt::format("{} of {} steps done", done, all);
  }

  bool differ() const {
    return std::any_of(entries_.begin(), entries_.end(), [this](const Seen& seen) {
      return as_called(seen.entry->call) != as_called(entries_.front().entry->call);
    });
  }

  /// "rank 2 called X, ranks 0 and 1 called Y". The text of a _v call has the sum of its counts only.
  std::string difference() const {
    std::vector<std::pair<const OperationRecord*, Members>> calls;
    for (const Seen& seen : entries_) {
      auto found = std::find_if(calls.begin(), calls.end(), [&](const auto& one) {
        return as_called(one.first->call) == as_called(seen.entry->call);
      });
      if (found == calls.end()) found = calls.insert(calls.end(), {seen.entry, {}});
      found->second.push_back(seen.member);
    }
    std::string text;
    for (auto one = calls.begin(); one != calls.end(); ++one) {
      const std::string what = with_algorithm(one->first->call);
      const bool is_told = std::any_of(
          calls.begin(), one, [&](const auto& earlier) { return with_algorithm(earlier.first->call) == what; });
      text += fmt::format("{}{} called {}{}", text.empty() ? "" : ", ", who(one->second), what,
                          !is_told                                                     ? ""
                          : (one->first->call.flags & black_box::Flags::variable) != 0 ? " with other counts"
                                                                                       : " in another way");
    }
    return text + where_ + ": these must be the same on all ranks";
  }

  std::string lagging() const {
    Members waiting = inside_;
    waiting.insert(waiting.end(), failed_.begin(), failed_.end());
    waiting = sorted(waiting);
    const bool one = behind_.size() == 1;
    std::string text = fmt::format("{} {} not entered {}", who(behind_), has(behind_), call());
    const OperationRecord* const last = behind_.front().last(group_);
    if (one && last)
      text += fmt::format(" ({} {} there)", last->state == State::started ? "is still in" : "its last call was",
                          describe(last->call));
    return text +
           fmt::format("; {} {} for it{}", who(waiting),
                       past_                 ? "waited"
                       : waiting.size() == 1 ? "waits"
                                             : "wait",
                       since()) +
           forgotten();
  }

  const Seen* fewest() const {
    const Seen* found = nullptr;
    for (const Seen& seen : entries_)
      if (seen.entry->state == State::started && (!found || share(seen) < share(*found))) found = &seen;
    return found;
  }
  /// In a round of a board only the bytes show which ranks have posted.
  static std::pair<double, std::uint64_t> share(const Seen& seen) {
    return {seen.entry->parts_done / static_cast<double>(std::max(1U, seen.entry->call.parts)), seen.entry->bytes};
  }

  std::uint64_t group_;
  bool past_;
  double waited_ = 0;
  bool is_timed_ = true;
  std::string where_;  ///< empty: in the world
  std::vector<Seen> entries_;
  Members behind_, inside_, failed_, through_, unknown_;
};

/// Adds which ranks wait for which in point-to-point messages.
void add_messages(std::span<const Snapshot> boxes, Tense tense, double least_seconds,
                  std::vector<std::string>& findings) {
  const bool past = tense == Tense::past;
  std::size_t count = 0;
  for (const Snapshot& box : boxes)
    for (const OperationRecord& entry : entries_of(box)) {
      const double seconds = seconds_in(entry, box);
      if (is_collective(entry) || entry.state != State::started || seconds < least_seconds ||
          count++ >= most_messages_told)
        continue;
      findings.push_back(
          fmt::format("rank {} {} {}{}", box.rank, past ? "was in" : "is in", describe(entry.call),
                      is_timed(entry, box) ? fmt::format(" {} {:.1f} s", past ? "for" : "since", seconds) : ""));
    }
}

/// A communicator: job, world and id.
using GroupKey = std::tuple<std::string, std::uint64_t, std::uint64_t>;
using ByGroup = std::map<GroupKey, Members>;

GroupKey key_of(const Snapshot& box, std::uint64_t group) { return {box.job, box.world, group}; }

ByGroup by_group(std::span<const Snapshot> boxes) {
  ByGroup groups;
  for (const Snapshot& box : boxes)
    for (const black_box::Member& member : box.groups) groups[key_of(box, member.group)].push_back({&box, member.rank});
  return groups;
}

}  // namespace

std::vector<std::string> compare(std::span<const Snapshot> boxes, Tense tense, double least_seconds) {
  std::vector<std::string> findings;
  if (boxes.size() < 2) return findings;
  std::vector<JointCall> joint_calls;
  for (const auto& [key, members] : by_group(boxes)) {
    const std::uint64_t group = std::get<2>(key);
    if (members.size() > 1) joint_calls.emplace_back(group, oldest_unfinished(group, members), members, tense);
  }
  std::stable_sort(joint_calls.begin(), joint_calls.end(),
                   [](const JointCall& one, const JointCall& other) { return one.waited() > other.waited(); });
  for (const JointCall& joint_call : joint_calls)
    if (std::string finding = joint_call.finding(); !finding.empty() && joint_call.waited() >= least_seconds)
      findings.push_back(std::move(finding));
  add_messages(boxes, tense, least_seconds, findings);
  return findings;
}

std::string last_call(const Snapshot& box, std::span<const Snapshot> boxes) {
  const Entries entries = entries_of(box);
  const auto first = std::find_if(entries.begin(), entries.end(),
                                  [](const OperationRecord& entry) { return entry.state == State::started; });
  if (first == entries.end()) return "";
  if (!is_collective(*first)) return fmt::format("rank {} was in {}", box.rank, describe(first->call));
  const ByGroup groups = by_group(boxes);
  const auto found = groups.find(key_of(box, first->call.group));
  const auto is_of_box = [&](const Member& member) { return member.box == &box; };
  // A box has no place for its oldest communicators where very many are in use; those of the others may still tell.
  if (found == groups.end() || std::none_of(found->second.begin(), found->second.end(), is_of_box))
    return fmt::format("rank {} was in {}", box.rank, describe(first->call));
  return JointCall(first->call.group, first->call.operation, found->second, Tense::past).around(box);
}

int blamed_by(const Snapshot& box, std::span<const Snapshot> boxes) {
  const Entries entries = entries_of(box);
  const auto failed = std::find_if(entries.rbegin(), entries.rend(),
                                   [](const OperationRecord& entry) { return entry.state == State::failed; });
  if (failed == entries.rend() || failed->culprit < 0) return -1;
  const ByGroup groups = by_group(boxes);
  const auto found = groups.find(key_of(box, failed->call.group));
  if (found == groups.end()) return -1;
  for (const Member& member : found->second)
    if (member.rank == failed->culprit) return member.box->rank;
  return -1;
}

}  // namespace tutti::cli
