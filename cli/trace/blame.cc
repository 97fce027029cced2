#include "cli/trace/blame.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace tutti::cli {
namespace {

std::int64_t total(const std::vector<Span>& spans) {
  std::int64_t time = 0;
  for (const Span& span : spans) time += span.length();
  return time;
}

/// Time of `span` that lies in none of `others`.
std::int64_t outside(Span span, std::vector<Span> others) {
  std::vector<Span> rest;
  add_rest(span, std::move(others), rest);
  return total(rest);
}

void add(Blame& blame, std::int64_t time, const std::string& call) {
  blame.time += time;
  if (time <= blame.most) return;
  blame.most = time;
  blame.call = call;
}

/// Groups messages that should take equally long.
int size_class(std::uint64_t bytes) { return static_cast<int>(std::bit_width(bytes)); }

struct Transit {
  std::pair<int, int> link;
  std::int64_t time;
  const TracedCall* call;
};
using Transits = std::map<std::pair<std::string, int>, std::vector<Transit>>;  // by algorithm and size

/// The time for which the receiver waits for a message in transit.
Span transit_of(const TracedMessage& message) { return {std::max(message.expected, message.given), message.received}; }

/// The parts of `spans` from `begin` to `end`.
std::vector<Span> within(const std::vector<Span>& spans, std::int64_t begin, std::int64_t end) {
  std::vector<Span> parts;
  for (const Span& span : spans) {
    const Span part{std::max(span.begin, begin), std::min(span.end, end)};
    if (part.length() > 0) parts.push_back(part);
  }
  return parts;
}

/// What its receiver did instead of taking a message. A rank's absence only counts from the moment at which the message
/// was handed to the link.
std::vector<Span> other_work(const TracedCall& call, const TracedMessage& message) {
  std::vector<Span> work = spans_of(call.busy, message.to);
  for (const Span& away : within(spans_of(call.away, message.to), message.given, message.received))
    work.push_back(away);
  return work;
}

/// Disjoint spans, of which those of some time are found fast.
class Cover {
 public:
  void add(Span span) {
    if (span.length() == 0) return;
    auto at = spans_.upper_bound(span.begin);
    if (at != spans_.begin() && std::prev(at)->second >= span.begin) --at;
    for (; at != spans_.end() && at->first <= span.end; at = spans_.erase(at)) {
      span.begin = std::min(span.begin, at->first);
      span.end = std::max(span.end, at->second);
    }
    spans_[span.begin] = span.end;
  }
  void find(Span window, std::vector<Span>& found) const {
    auto at = spans_.upper_bound(window.begin);
    if (at != spans_.begin()) --at;
    for (; at != spans_.end() && at->first < window.end; ++at) found.push_back({at->first, at->second});
  }

 private:
  std::map<std::int64_t, std::int64_t> spans_;  // end by begin
};

class Judge {
 public:
  void hear(const TracedCall& call);
  Verdicts verdicts();

 private:
  /// A call that a rank has left.
  struct Left {
    std::int64_t begin;
    std::string name;
  };

  std::int64_t free_before(int rank, std::int64_t moment) const;
  void blame_sender(const TracedCall& call, const TracedMessage& message, const std::vector<Span>& held_up);
  void blame_receiver(const TracedCall& call, const TracedMessage& message);
  void blame_rank(const TracedCall& call, int rank, int waiter, const Span& wait, std::int64_t more);
  std::int64_t blame_earlier(const TracedCall& call, int rank, int waiter, const Span& wait);
  void close(const TracedCall& call);

  Verdicts found_;
  Transits transits_;
  std::map<int, std::vector<Span>> waits_;   // of this call, by rank, without time in which the rank was busy
  std::map<int, std::vector<Span>> blamed_;  // of this call, by rank: others waited for it
  std::map<int, std::int64_t> late_, slow_;  // of this call: the longest wait for each rank
  std::map<std::pair<int, std::string>, std::int64_t> slow_before_;  // the same for its time in earlier calls
  std::map<int, std::multimap<std::int64_t, Left>> left_;            // by rank, and by when it left them
  std::map<int, Cover> explained_;  // of the earlier calls, by rank: it waited, or has been blamed
};

/// When a rank that came at that moment had left its earlier calls.
std::int64_t Judge::free_before(int rank, std::int64_t moment) const {
  constexpr auto always = std::numeric_limits<std::int64_t>::min();
  const auto left = left_.find(rank);
  if (left == left_.end()) return always;
  const auto later = left->second.upper_bound(moment);
  return later == left->second.begin() ? always : std::prev(later)->first;
}

void Judge::blame_sender(const TracedCall& call, const TracedMessage& message, const std::vector<Span>& held_up) {
  const Span transit = transit_of(message);
  blame_rank(call, message.from, message.to, {message.expected, std::min(message.received, message.given)},
             transit.length() - outside(transit, held_up));
}

/// A sender that waits for a slot waits for the receiver.
void Judge::blame_receiver(const TracedCall& call, const TracedMessage& message) {
  if (message.blocked.length() > 0) blame_rank(call, message.to, message.from, message.blocked, 0);
}

/// `waiter` waited for `rank` when it was not busy, and `more` because that was held up.
void Judge::blame_rank(const TracedCall& call, int rank, int waiter, const Span& wait, std::int64_t more) {
  const auto part = call.ranks.find(rank);
  const std::int64_t came = part == call.ranks.end() ? wait.begin : part->second.begin;
  const std::int64_t free = free_before(rank, came);
  std::int64_t& late = late_[rank];
  const Span before{std::max(wait.begin, free), std::min(wait.end, came)};
  late = std::max(late, outside(before, spans_of(call.busy, waiter)) +
                            blame_earlier(call, rank, waiter, {wait.begin, std::min(before.end, free)}));
  std::int64_t& slow = slow_[rank];
  slow = std::max(slow, outside({std::max(wait.begin, came), wait.end}, waits_[rank]) + more);
  blamed_[rank].push_back(wait);
}

/// A rank that was still in an earlier call could not come. Where it waited there, or others have waited for it, that
/// has been attributed. Else it was slow there, at its end. Returns the time in which it was in no call.
std::int64_t Judge::blame_earlier(const TracedCall& call, int rank, int waiter, const Span& wait) {
  if (wait.length() == 0) return 0;
  std::vector<Span> holes = spans_of(call.busy, waiter), rest;
  explained_[rank].find(wait, holes);
  add_rest(wait, std::move(holes), rest);
  std::multimap<std::int64_t, Left>& calls = left_[rank];
  for (auto left = calls.upper_bound(wait.begin); left != calls.end() && !rest.empty(); ++left) {
    std::vector<Span> outside_of_it;
    for (const Span& span : rest) add_rest(span, {{left->second.begin, left->first}}, outside_of_it);
    std::int64_t& slow = slow_before_[{rank, left->second.name}];
    slow = std::max(slow, total(rest) - total(outside_of_it));
    rest = std::move(outside_of_it);
  }
  return total(rest);
}

/// What is known of the call now is earlier than the next one.
void Judge::close(const TracedCall& call) {
  for (const auto& [rank, time] : late_) add(found_.ranks[rank].late, time, call.name);
  for (const auto& [rank, time] : slow_) add(found_.ranks[rank].slow, time, call.name);
  for (const auto& [who, time] : slow_before_) add(found_.ranks[who.first].slow, time, who.second);
  for (const auto* const known : {&waits_, &blamed_})
    for (const auto& [rank, spans] : *known)
      for (const Span& span : spans) explained_[rank].add(span);
  for (const auto& [rank, span] : call.ranks) left_[rank].emplace(span.end, Left{span.begin, call.name});
  for (auto* const times : {&late_, &slow_}) times->clear();
  for (auto* const spans : {&waits_, &blamed_}) spans->clear();
  slow_before_.clear();
}

void Judge::hear(const TracedCall& call) {
  found_.in_calls += call.end() - call.begin();
  for (const TracedMessage& message : call.messages) {
    add_rest({message.expected, message.received}, other_work(call, message), waits_[message.to]);
    if (message.blocked.length() > 0) waits_[message.from].push_back(message.blocked);
  }
  for (const auto& [rank, waits] : waits_) {
    const auto own = call.ranks.find(rank);
    if (own != call.ranks.end()) found_.ranks[rank].waited += own->second.length() - outside(own->second, waits);
  }
  for (const TracedMessage& message : call.messages) {
    // The sender was away before the link had taken the rest of the message.
    std::vector<Span> excused = within(spans_of(call.away, message.from), message.given, message.sent);
    blame_sender(call, message, excused);
    blame_receiver(call, message);
    for (const Span& span : other_work(call, message)) excused.push_back(span);
    transits_[{call.algorithm, size_class(message.bytes)}].push_back(
        {{message.from, message.to}, outside(transit_of(message), std::move(excused)), &call});
  }
  close(call);
}

/// The usual time of such a message on other links; -1 if there is none.
std::int64_t usual_elsewhere(const std::vector<Transit>& all, std::pair<int, int> link) {
  std::vector<std::int64_t> others;
  for (const Transit& one : all)
    if (one.link != link) others.push_back(one.time);
  if (others.empty()) return -1;
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  return *middle;
}

Verdicts Judge::verdicts() {
  for (const auto& [kind, all] : transits_) {
    std::map<std::pair<int, int>, std::int64_t> usual;
    for (const Transit& one : all) {
      if (!usual.contains(one.link)) usual[one.link] = usual_elsewhere(all, one.link);
      if (usual[one.link] >= 0 && one.time > usual[one.link])
        add(found_.links[one.link], one.time - usual[one.link], one.call->name);
    }
  }
  return std::move(found_);
}

}  // namespace

const std::vector<Span>& spans_of(const std::map<int, std::vector<Span>>& all, int rank) {
  static const std::vector<Span> none;
  const auto found = all.find(rank);
  return found == all.end() ? none : found->second;
}

void add_rest(Span span, std::vector<Span> holes, std::vector<Span>& rest) {
  std::sort(holes.begin(), holes.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  for (const Span& hole : holes) {
    if (hole.end <= span.begin) continue;
    if (hole.begin >= span.end) break;
    if (hole.begin > span.begin) rest.push_back({span.begin, hole.begin});
    span.begin = std::max(span.begin, hole.end);
  }
  if (span.length() > 0) rest.push_back(span);
}

Verdicts judge(const std::vector<TracedCall>& calls) {
  Judge judge;
  for (const TracedCall& call : calls) judge.hear(call);
  return judge.verdicts();
}

}  // namespace tutti::cli
