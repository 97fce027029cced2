// A traced run on its plan: which calls of the trace use the plan, and when each of its messages was sent and received.

#include "cli/plan/page/run.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "algorithms/describe.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/plan/page/run_messages.h"
#include "cli/trace/predict.h"
#include "lib/collective/call.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

using algorithms::Plan;
using Calls = std::vector<const TracedCall*>;

constexpr std::size_t most_calls = 12;
/// The limit for all calls of a page. Without them it has some 290 kB, and it must stay below 400 kB. A call takes
/// about 30 bytes per message.
constexpr std::size_t most_bytes_of_calls = 100'000;
constexpr std::size_t most_named = 6;  // plans that an error lists

/// A plan of all ranks, and the calls that use it.
struct Carried {
  simulate::SimulatedCall simulated;
  Calls calls;
  std::int64_t time = 0;
};

/// The request, and the trace to search.
struct Source {
  const RunWish& wish;
  const TraceFile& trace;
  Calls alike;  ///< of the same algorithm
};

std::string name_of_plan(const simulate::SimulatedCall& simulated) {
  return fmt::format("{} by {} over {}{}", name_of(simulated.collective), to_string(simulated.choice),
                     plural(static_cast<std::size_t>(simulated.ranks), "rank"),
                     detail::is_rooted(simulated.collective) ? fmt::format(" from root {}", simulated.root) : "");
}

bool is_wished(const RunWish& wish, const simulate::SimulatedCall& simulated) {
  if (wish.collective && *wish.collective != simulated.collective) return false;
  if (wish.ranks && *wish.ranks != simulated.ranks) return false;
  if (wish.root && *wish.root != simulated.root) return false;
  if (wish.algorithm.empty()) return true;
  try {
    const algorithms::Choice choice =
        settled(algorithms::find(simulated.collective, wish.algorithm), simulated.ranks, simulated.bytes);
    const bool plain = wish.algorithm.find_first_of(":*/") == std::string::npos;
    return choice.entry == simulated.choice.entry &&
           (plain || (choice.radix == simulated.choice.radix && choice.pipeline == simulated.choice.pipeline));
  } catch (const Error&) {
    return false;  // only another collective has such an algorithm, or none has
  }
}

std::vector<Plan> plans_of(const simulate::SimulatedCall& simulated) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < simulated.ranks; ++rank) plans.push_back(simulated.plan(rank));
  return plans;
}

/// When each rank waited for a message and did nothing else, in time order.
std::vector<std::vector<Span>> waits_of(const TracedCall& call, const std::vector<int>& members) {
  std::vector<std::vector<Span>> waits;
  for (const int rank : members) {
    std::vector<Span> mine;
    for (const TracedMessage& message : call.messages)
      if (message.to == rank) add_rest({message.expected, message.arrived}, spans_of(call.busy, rank), mine);
    for (Span& span : mine) span = {span.begin - call.begin(), span.end - call.begin()};
    waits.push_back(apart(std::move(mine)));
  }
  return waits;
}

ReplayedCall replayed(const TracedCall& call, const std::vector<TracedMessage>& messages, const Source& source) {
  ReplayedCall made;
  made.name = call.name;
  made.operation = call.operation;
  made.group = call.group;
  made.bytes = call.bytes;
  made.members = call.members();
  const std::int64_t begin = call.begin();
  made.end = call.end() - begin;
  for (const int rank : made.members) {
    const Span& span = call.ranks.at(rank);
    made.in_call.push_back({span.begin - begin, span.end - begin});
  }
  for (const TracedMessage& message : messages)
    made.messages.push_back({message.given - begin, message.received - begin, 0, 0});
  if (const auto prediction = predict(call, source.alike)) {
    made.predicted = static_cast<std::int64_t>(prediction->end);
    for (std::size_t i = 0; i < made.messages.size(); ++i) {
      made.messages[i].predicted_begin = static_cast<std::int64_t>(prediction->messages[i].begin);
      made.messages[i].predicted_end = static_cast<std::int64_t>(prediction->messages[i].end);
    }
  }
  made.waits = waits_of(call, made.members);
  const Verdicts verdicts = judge({call});
  for (const int rank : made.members) {
    const auto blame = verdicts.ranks.find(rank);
    made.blame.push_back(blame == verdicts.ranks.end() ? RankBlame{} : blame->second);
  }
  made.verdict = conclusions(verdicts, source.trace.ranks);
  return made;
}

std::string what_there_is(const std::vector<Carried>& plans, int most_ranks) {
  if (plans.empty()) return fmt::format("it has no call of 2 to {} ranks by an algorithm of this tutti", most_ranks);
  std::string text = "it has ";
  for (std::size_t i = 0; i < std::min(plans.size(), most_named); ++i)
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", name_of_plan(plans[i].simulated),
                        plural(plans[i].calls.size(), "call"));
  return plans.size() <= most_named ? text : fmt::format("{} and {} more", text, plans.size() - most_named);
}

std::string wished_text(const RunWish& wish) {
  std::string text = wish.collective ? name_of(*wish.collective) : "call";
  if (!wish.algorithm.empty()) text += " by " + wish.algorithm;
  if (wish.ranks) text += " over " + plural(static_cast<std::size_t>(*wish.ranks), "rank");
  if (wish.root) text += fmt::format(" from root {}", *wish.root);
  return text;
}

/// By plan, those with the longest total time first.
std::vector<Carried> sorted_by_plan(const TraceFile& trace, int most_ranks) {
  std::map<std::tuple<Collective, std::string, int, int>, Carried> by_plan;
  for (const TracedCall& call : trace.calls) {
    const auto simulated = simulated_call_of(call);
    if (!simulated || simulated->ranks > most_ranks) continue;
    Carried& carried =
        by_plan[{simulated->collective, to_string(simulated->choice), simulated->ranks, simulated->root}];
    if (carried.calls.empty()) carried.simulated = *simulated;
    carried.calls.push_back(&call);
    carried.time += call.end() - call.begin();
  }
  std::vector<Carried> plans;
  for (auto& [key, carried] : by_plan) plans.push_back(std::move(carried));
  std::stable_sort(plans.begin(), plans.end(), [](const Carried& a, const Carried& b) { return a.time > b.time; });
  return plans;
}

/// One of its ranks or links stands out.
bool blames_somebody(const TracedCall& call, const TraceFile& trace) {
  const std::vector<Conclusion> all = conclusions(judge({call}), trace.ranks);
  return std::any_of(all.begin(), all.end(),
                     [](const Conclusion& one) { return !one.ranks.empty() || !one.links.empty(); });
}

/// The requested call first, otherwise the first of the longest calls about which there is something to report, since a
/// call that only queued behind another is long, too. Then the longest, the median, the shortest, and the next longest
/// ones.
Calls by_interest(Calls calls, const Source& source) {
  constexpr std::ptrdiff_t looked_at = 20;
  const std::optional<std::uint64_t> operation = source.wish.operation;
  std::stable_sort(calls.begin(), calls.end(), [](const TracedCall* a, const TracedCall* b) {
    return a->end() - a->begin() > b->end() - b->begin();
  });
  const auto end = calls.begin() + std::min(looked_at, std::ssize(calls));
  const auto telling =
      std::find_if(calls.begin(), end, [&](const TracedCall* call) { return blames_somebody(*call, source.trace); });
  if (telling != end) std::rotate(calls.begin(), telling, telling + 1);
  if (calls.size() > 3) {
    std::rotate(calls.begin() + 1, calls.end() - 1, calls.end());
    const auto middle = calls.begin() + static_cast<std::ptrdiff_t>(calls.size() / 2);
    std::rotate(calls.begin() + 1, middle, middle + 1);
  }
  if (operation)
    std::stable_partition(calls.begin(), calls.end(),
                          [&](const TracedCall* call) { return call->operation == *operation; });
  return calls;
}

std::string no_room(Run& run, const TracedCall& call, std::size_t messages, std::size_t bytes) {
  run.left_out += (run.left_out.empty() ? "" : ", ") + name_of_plan(run.simulated);
  return fmt::format(
      "{} has {} by {} over {}, but a page has {} kB of room for calls, and its {} would take {}; name a call by "
      "--call, "
      "or another plan by collective, --algo or -n",
      run.file, call.name, to_string(run.simulated.choice), plural(call.ranks.size(), "rank"),
      most_bytes_of_calls / 1000, plural(messages, "message"), bytes / 1000);
}

/// Adds the calls of a plan that are complete, up to the limit; returns the reason if there are none.
std::string add_calls(Run& run, const Carried& carried, const Source& source) {
  const RunWish& wish = source.wish;
  const std::vector<Plan> plans = plans_of(carried.simulated);
  std::map<const TracedCall*, std::vector<TracedMessage>> complete;
  Calls calls;
  for (const TracedCall* call : carried.calls)
    if (auto messages = messages_of(*call, *simulated_call_of(*call), plans)) {
      complete[call] = std::move(*messages);
      calls.push_back(call);
    }
  run.found = calls.size();
  if (calls.empty())
    return fmt::format(
        "{} has {} of {}, but of none is every message of that plan there: it failed, records were lost "
        "(TUTTI_TRACE_RECORDS), steps of it were left out, or the plan was another",
        wish.file, plural(carried.calls.size(), "call"), name_of_plan(carried.simulated));
  calls = by_interest(std::move(calls), source);
  if (wish.operation && calls.front()->operation != *wish.operation)
    return fmt::format("{} has no complete call #{} of {}; #{} is one of {}", wish.file, *wish.operation,
                       name_of_plan(carried.simulated), calls.front()->operation, calls.size());
  run.simulated = *simulated_call_of(*calls.front());
  std::vector<std::pair<const TracedCall*, ReplayedCall>> shown;
  std::size_t bytes = 0;
  for (const TracedCall* call : calls) {
    if (shown.size() == most_calls) break;
    ReplayedCall made = replayed(*call, complete[call], source);
    bytes += size_on_page(made);
    const bool wished = call == calls.front() && wish.operation;
    if (bytes > most_bytes_of_calls && !wished) break;
    shown.emplace_back(call, std::move(made));
  }
  if (shown.empty()) return no_room(run, *calls.front(), complete[calls.front()].size(), bytes);
  std::sort(shown.begin(), shown.end(), [](const auto& a, const auto& b) {
    return std::tuple{a.first->begin(), a.first->operation} < std::tuple{b.first->begin(), b.first->operation};
  });
  for (auto& [call, made] : shown) {
    if (call == calls.front()) run.first = run.calls.size();
    run.groups = run.groups || call->group != calls.front()->group;
    run.calls.push_back(std::move(made));
  }
  return {};
}

}  // namespace

Run find_run(const RunWish& wish, int most_ranks) {
  const TraceFile trace = read_trace("plan", wish.file);
  const std::vector<Carried> plans = sorted_by_plan(trace, most_ranks);
  std::string why_not, left_out;
  for (const Carried& carried : plans) {
    const auto has_number = [&](const TracedCall* call) { return call->operation == *wish.operation; };
    if (!is_wished(wish, carried.simulated) ||
        (wish.operation && std::none_of(carried.calls.begin(), carried.calls.end(), has_number)))
      continue;
    Source source{wish, trace, {}};
    for (const TracedCall& call : trace.calls)
      if (call.algorithm == carried.calls.front()->algorithm && call.ranks.size() > 1) source.alike.push_back(&call);
    Run run;
    run.file = wish.file;
    run.left_out = left_out;
    const std::string problem = add_calls(run, carried, source);
    if (problem.empty()) return run;
    left_out = run.left_out;
    if (why_not.empty()) why_not = problem;
  }
  if (!why_not.empty()) wrong("plan", why_not);
  const std::string number = wish.operation ? fmt::format("call #{} that is ", *wish.operation) : "";
  wrong("plan",
        fmt::format("{} has no {}{}; {}", wish.file, number, wished_text(wish), what_there_is(plans, most_ranks)));
}

}  // namespace tutti::cli
