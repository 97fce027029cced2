#include "cli/trace/blame.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

namespace tutti::cli {
namespace {

/// Time of `span` that lies in none of `others`.
std::int64_t outside(Span span, std::vector<Span> others) {
  std::vector<Span> rest;
  add_rest(span, std::move(others), rest);
  std::int64_t time = 0;
  for (const Span& part : rest) time += part.length();
  return time;
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

class Judge {
 public:
  void hear(const TracedCall& call);
  Verdicts verdicts();

 private:
  std::int64_t free_before(int rank, std::int64_t moment) const;
  void blame_sender(const TracedCall& call, const TracedMessage& message, const std::vector<Span>& held_up);
  void blame_receiver(const TracedCall& call, const TracedMessage& message);
  void blame_rank(const TracedCall& call, int rank, int waiter, const Span& wait, std::int64_t more);

  Verdicts found_;
  Transits transits_;
  std::map<int, std::vector<Span>> waits_;      // of this call, by rank, without time in which the rank was busy
  std::map<int, std::int64_t> late_, slow_;     // of this call: the longest wait for each rank
  std::map<int, std::set<std::int64_t>> left_;  // when each rank left the earlier calls
};

/// A rank that was still in an earlier call could not come; that is attributed to the earlier call.
std::int64_t Judge::free_before(int rank, std::int64_t moment) const {
  constexpr auto always = std::numeric_limits<std::int64_t>::min();
  const auto left = left_.find(rank);
  if (left == left_.end()) return always;
  const auto later = left->second.upper_bound(moment);
  return later == left->second.begin() ? always : *std::prev(later);
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
  std::int64_t& late = late_[rank];
  const Span before{std::max(wait.begin, free_before(rank, came)), std::min(wait.end, came)};
  late = std::max(late, outside(before, spans_of(call.busy, waiter)));
  std::int64_t& slow = slow_[rank];
  slow = std::max(slow, outside({std::max(wait.begin, came), wait.end}, waits_[rank]) + more);
}

void Judge::hear(const TracedCall& call) {
  found_.in_calls += call.end() - call.begin();
  waits_.clear();
  late_.clear();
  slow_.clear();
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
  for (const auto& [rank, time] : late_) add(found_.ranks[rank].late, time, call.name);
  for (const auto& [rank, time] : slow_) add(found_.ranks[rank].slow, time, call.name);
  for (const auto& [rank, span] : call.ranks) left_[rank].insert(span.end);
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
