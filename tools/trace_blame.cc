#include "tools/trace_blame.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

namespace tutti::tools {
namespace {

/// Of the time in calls, to be worth a word.
constexpr double share_to_tell = 0.05;
/// More than any other of its kind by this factor.
constexpr double stands_out = 3;

/// Time of `span` that lies in none of `others`.
std::int64_t outside(Span span, std::vector<Span> others) {
  std::sort(others.begin(), others.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::int64_t time = 0;
  for (const Span& other : others) {
    if (other.end <= span.begin) continue;
    if (other.begin >= span.end) break;
    time += Span{span.begin, other.begin}.length();
    span.begin = std::max(span.begin, other.end);
  }
  return time + span.length();
}

/// What `span` has outside of `holes`.
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

void add(Blame& blame, std::int64_t time, const std::string& call) {
  blame.time += time;
  if (time <= blame.most) return;
  blame.most = time;
  blame.call = call;
}

/// Messages that should take equally long.
int size_class(std::uint64_t bytes) { return static_cast<int>(std::bit_width(bytes)); }

struct Transit {
  std::pair<int, int> link;
  std::int64_t time;
  const TracedCall* call;
};
using Transits = std::map<std::pair<std::string, int>, std::vector<Transit>>;  // by algorithm and size

class Judge {
 public:
  void hear(const TracedCall& call);
  Verdicts verdicts();

 private:
  void blame_sender(const TracedCall& call, const TracedMessage& message);

  Verdicts found_;
  Transits transits_;
  std::map<int, std::vector<Span>> waits_;   // of this call, by rank, without what the rank was busy with
  std::map<int, std::int64_t> late_, slow_;  // of this call: the longest wait for a rank
};

void Judge::blame_sender(const TracedCall& call, const TracedMessage& message) {
  const Span wait{message.expected, std::min(message.received, message.given)};
  if (wait.length() == 0) return;
  const auto sender = call.ranks.find(message.from);
  const std::int64_t came = sender == call.ranks.end() ? wait.begin : sender->second.begin;
  std::int64_t& late = late_[message.from];
  late = std::max(late, Span{wait.begin, std::min(wait.end, came)}.length());
  std::int64_t& slow = slow_[message.from];
  slow = std::max(slow, outside({std::max(wait.begin, came), wait.end}, waits_[message.from]));
}

void Judge::hear(const TracedCall& call) {
  found_.in_calls += call.end() - call.begin();
  waits_.clear();
  late_.clear();
  slow_.clear();
  const auto busy_of = [&](int rank) {
    const auto busy = call.busy.find(rank);
    return busy == call.busy.end() ? std::vector<Span>{} : busy->second;
  };
  for (const TracedMessage& message : call.messages)
    add_rest({message.expected, message.received}, busy_of(message.to), waits_[message.to]);
  for (const auto& [rank, waits] : waits_) {
    const auto own = call.ranks.find(rank);
    if (own != call.ranks.end()) found_.ranks[rank].waited += own->second.length() - outside(own->second, waits);
  }
  for (const TracedMessage& message : call.messages) {
    blame_sender(call, message);
    const Span transit{std::max(message.expected, message.given), message.received};
    transits_[{call.algorithm, size_class(message.bytes)}].push_back(
        {{message.from, message.to}, outside(transit, busy_of(message.to)), &call});
  }
  for (const auto& [rank, time] : late_) add(found_.ranks[rank].late, time, call.name);
  for (const auto& [rank, time] : slow_) add(found_.ranks[rank].slow, time, call.name);
}

/// What such a message takes on links other than this one; -1: there is none.
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

std::string of_calls(std::int64_t time, std::int64_t in_calls) {
  return fmt::format("{} of {} in calls", duration_text(time), duration_text(in_calls));
}

}  // namespace

Verdicts judge(const std::vector<TracedCall>& calls) {
  Judge judge;
  for (const TracedCall& call : calls) judge.hear(call);
  return judge.verdicts();
}

std::string duration_text(std::int64_t nanoseconds) {
  const auto value = static_cast<double>(nanoseconds);
  if (nanoseconds < 1000) return fmt::format("{} ns", nanoseconds);
  if (nanoseconds < 1'000'000) return fmt::format("{:.1f} us", value / 1e3);
  if (nanoseconds < 1'000'000'000) return fmt::format("{:.1f} ms", value / 1e6);
  return fmt::format("{:.2f} s", value / 1e9);
}

std::vector<Conclusion> conclusions(const Verdicts& verdicts) {
  std::vector<std::pair<std::int64_t, Conclusion>> found;
  const auto conclude = [&](std::int64_t time, std::string text, std::vector<int> ranks,
                            std::vector<std::pair<int, int>> of_links) {
    found.emplace_back(time, Conclusion{std::move(text), std::move(ranks), std::move(of_links)});
  };
  const double least = share_to_tell * static_cast<double>(verdicts.in_calls);
  const auto is_worth_a_word = [&](std::int64_t time, std::int64_t next) {
    return static_cast<double>(time) >= std::max(least, 1.0) &&
           static_cast<double>(time) >= stands_out * static_cast<double>(next);
  };
  std::vector<std::pair<std::int64_t, int>> ranks{{0, -1}, {0, -1}};
  for (const auto& [rank, blame] : verdicts.ranks) ranks.emplace_back(blame.time(), rank);
  std::sort(ranks.rbegin(), ranks.rend());
  if (is_worth_a_word(ranks[0].first, ranks[1].first)) {
    const RankBlame& blame = verdicts.ranks.at(ranks[0].second);
    const bool came_late = blame.late.time > blame.slow.time;
    const Blame& worst = came_late ? blame.late : blame.slow;
    conclude(ranks[0].first,
             fmt::format("rank {} {}: others waited for it {}, most in {} ({})", ranks[0].second,
                         came_late ? "came late" : "was slow", of_calls(ranks[0].first, verdicts.in_calls), worst.call,
                         duration_text(worst.most)),
             {ranks[0].second}, {});
  }
  std::vector<std::pair<std::int64_t, std::pair<int, int>>> links{{0, {}}, {0, {}}};
  for (const auto& [link, blame] : verdicts.links) links.emplace_back(blame.time, link);
  std::sort(links.rbegin(), links.rend());
  if (is_worth_a_word(links[0].first, links[1].first)) {
    const auto [from, to] = links[0].second;
    const Blame& blame = verdicts.links.at(links[0].second);
    conclude(blame.time,
             fmt::format("the link from rank {} to rank {} was slow: its messages took {} more than such "
                         "messages on other links, most in {} ({})",
                         from, to, of_calls(blame.time, verdicts.in_calls), blame.call, duration_text(blame.most)),
             {}, {{from, to}});
  }
  // One slow card is two slow links.
  const auto& [one, other] = std::pair{links[0].second, links[1].second};
  const int shared = one.first == other.second || one.first == other.first ? one.first : one.second;
  const bool is_shared = shared == other.first || shared == other.second;
  if (links.size() > 4 && is_shared && !is_worth_a_word(links[0].first, links[1].first) &&
      is_worth_a_word(links[1].first, links[2].first))
    conclude(links[0].first,
             fmt::format("the links of rank {} were slow: messages from rank {} to rank {} took {} more than "
                         "such messages on other links, and those from rank {} to rank {} {}",
                         shared, one.first, one.second, of_calls(links[0].first, verdicts.in_calls), other.first,
                         other.second, duration_text(links[1].first)),
             {}, {one, other});
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Conclusion> all;
  for (auto& [time, conclusion] : found) all.push_back(std::move(conclusion));
  if (all.empty()) all.push_back({"no rank and no link stands out", {}, {}});
  return all;
}

}  // namespace tutti::tools
