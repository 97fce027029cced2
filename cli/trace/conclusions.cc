// Finds the rank, host or link that stands out in the waits.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cli/trace/blame.h"

namespace tutti::cli {
namespace {

using Link = std::pair<int, int>;

/// Least share of the time in calls to be reported.
constexpr double share_to_tell = 0.05;
/// The factor by which it must exceed all others of its kind.
constexpr double stands_out = 3;

class Concluder {
 public:
  Concluder(const Verdicts& verdicts, const std::map<int, TracedRank>& job) : verdicts_(verdicts), job_(job) {}

  std::vector<Conclusion> conclude();

 private:
  template <class Key>
  using Ranking = std::vector<std::pair<std::int64_t, Key>>;  // the worst first; at least two

  bool is_worth_a_word(std::int64_t time, std::int64_t next) const;
  std::string of_calls(std::int64_t time) const;
  std::string host_of(int rank) const;
  /// Reports a rank if one stands out.
  bool name_rank(const Ranking<int>& ranks);
  void name_host(const Ranking<int>& ranks);
  void name_links(const Ranking<Link>& links);

  const Verdicts& verdicts_;
  const std::map<int, TracedRank>& job_;
  std::vector<std::pair<std::int64_t, Conclusion>> found_;
};

bool Concluder::is_worth_a_word(std::int64_t time, std::int64_t next) const {
  const double least = share_to_tell * static_cast<double>(verdicts_.in_calls);
  return static_cast<double>(time) >= std::max(least, 1.0) &&
         static_cast<double>(time) >= stands_out * static_cast<double>(next);
}

std::string Concluder::of_calls(std::int64_t time) const {
  return fmt::format("{} of {} in calls", duration_text(time), duration_text(verdicts_.in_calls));
}

std::string Concluder::host_of(int rank) const {
  const auto found = job_.find(rank);
  return found == job_.end() ? "" : found->second.host;
}

bool Concluder::name_rank(const Ranking<int>& ranks) {
  const auto& [time, rank] = ranks[0];
  if (!is_worth_a_word(time, ranks[1].first)) return false;
  const RankBlame& blame = verdicts_.ranks.at(rank);
  const bool came_late = blame.late.time > blame.slow.time;
  const Blame& worst = came_late ? blame.late : blame.slow;
  found_.emplace_back(time, Conclusion{fmt::format("rank {} {}: others waited for it {}, most in {} ({})", rank,
                                                   came_late ? "came late" : "was slow", of_calls(time), worst.call,
                                                   duration_text(worst.most)),
                                       {rank},
                                       {}});
  return true;
}

/// A host is reported if the ranks that stand out are several, and all of them are on that host.
void Concluder::name_host(const Ranking<int>& ranks) {
  const std::string host = host_of(ranks[0].second);
  if (host.empty()) return;  // the file does not name its host
  const auto elsewhere =
      std::find_if(ranks.begin(), ranks.end(), [&](const auto& one) { return host_of(one.second) != host; });
  if (elsewhere == ranks.end() || elsewhere->second < 0) return;  // there is only one
  std::set<int> named;
  std::int64_t late = 0, slow = 0;
  for (auto one = ranks.begin(); one != elsewhere && is_worth_a_word(one->first, elsewhere->first); ++one) {
    named.insert(one->second);
    late += verdicts_.ranks.at(one->second).late.time;
    slow += verdicts_.ranks.at(one->second).slow.time;
  }
  if (named.size() < 2) return;
  const RankBlame& blame = verdicts_.ranks.at(ranks[0].second);
  const Blame& worst = blame.late.time > blame.slow.time ? blame.late : blame.slow;
  found_.emplace_back(
      ranks[0].first,
      Conclusion{fmt::format("host {} {}: others waited for its ranks {}, longest for rank {}, {}, most in {} ({})",
                             host, late > slow ? "came late" : "was slow", fmt::join(named, ", "), ranks[0].second,
                             of_calls(ranks[0].first), worst.call, duration_text(worst.most)),
                 {named.begin(), named.end()},
                 {}});
}

void Concluder::name_links(const Ranking<Link>& links) {
  const auto& [time, worst] = links[0];
  const auto& [next_time, next] = links[1];
  if (is_worth_a_word(time, next_time)) {
    const Blame& blame = verdicts_.links.at(worst);
    found_.emplace_back(
        time, Conclusion{fmt::format("the link from rank {} to rank {} was slow: its messages took {} more than such "
                                     "messages on other links, most in {} ({})",
                                     worst.first, worst.second, of_calls(time), blame.call, duration_text(blame.most)),
                         {},
                         {worst}});
    return;
  }
  // Two slow links of one rank point to its network card.
  const int shared = worst.first == next.second || worst.first == next.first ? worst.first : worst.second;
  const bool is_shared = shared == next.first || shared == next.second;
  if (links.size() > 4 && is_shared && is_worth_a_word(next_time, links[2].first))
    found_.emplace_back(
        time, Conclusion{fmt::format("the links of rank {} were slow: messages from rank {} to rank {} took {} more "
                                     "than such messages on other links, and those from rank {} to rank {} {}",
                                     shared, worst.first, worst.second, of_calls(time), next.first, next.second,
                                     duration_text(next_time)),
                         {},
                         {worst, next}});
}

std::vector<Conclusion> Concluder::conclude() {
  Ranking<int> ranks{{0, -1}, {0, -1}};
  for (const auto& [rank, blame] : verdicts_.ranks) ranks.emplace_back(blame.time(), rank);
  std::sort(ranks.rbegin(), ranks.rend());
  Ranking<Link> links{{0, {}}, {0, {}}};
  for (const auto& [link, blame] : verdicts_.links) links.emplace_back(blame.time, link);
  std::sort(links.rbegin(), links.rend());
  if (!name_rank(ranks)) name_host(ranks);
  name_links(links);
  std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Conclusion> all;
  for (auto& [time, conclusion] : found_) all.push_back(std::move(conclusion));
  if (all.empty()) all.push_back({"no rank, host or link stands out", {}, {}});
  return all;
}

}  // namespace

std::string duration_text(std::int64_t nanoseconds) {
  // Rounded as an integer: halves of 0.1 us have no exact double, and the page writes the same times (words.js).
  const auto in = [&](std::int64_t unit) {
    const std::int64_t units = (nanoseconds + unit / 2) / unit;
    return static_cast<double>(units);
  };
  if (nanoseconds < 1000) return fmt::format("{} ns", nanoseconds);
  if (nanoseconds < 1'000'000) return fmt::format("{:.1f} us", in(100) / 10);
  if (nanoseconds < 1'000'000'000) return fmt::format("{:.1f} ms", in(100'000) / 10);
  return fmt::format("{:.2f} s", in(10'000'000) / 100);
}

std::vector<Conclusion> conclusions(const Verdicts& verdicts, const std::map<int, TracedRank>& job) {
  return Concluder(verdicts, job).conclude();
}

}  // namespace tutti::cli
