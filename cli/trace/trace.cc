// `tutti trace`: summarises the trace of a real run in words.

#include "cli/trace/trace.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <tuple>

#include "cli/base/command_line.h"
#include "cli/base/exit_codes.h"
#include "cli/measure/median.h"
#include "cli/simulate/runs.h"
#include "cli/trace/blame.h"
#include "cli/trace/predict.h"
#include "cli/trace/read.h"
#include "lib/base/collective_traits.h"
#include "lib/observe/trace/record.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

constexpr const char* trace_examples = R"(Example:
  tutti run -n 4 --trace t.json ./prog
  tutti trace t.json)";

struct Kind {
  Collective collective;
  std::string algorithm;
  std::size_t ranks;
  std::uint64_t bytes;  // all parts together
  bool operator<(const Kind& other) const {
    return std::tie(collective, algorithm, ranks, bytes) <
           std::tie(other.collective, other.algorithm, other.ranks, other.bytes);
  }
};

Kind kind_of(const TracedCall& call) {
  const auto ranks = static_cast<std::size_t>(call.size);
  const bool has_equal_parts = detail::traits_of(call.collective).has_parts() && !call.variable;
  return {call.collective, call.algorithm, ranks, call.bytes * (has_equal_parts ? ranks : 1)};
}

/// The prediction for one of the calls whose ranks are all in the file.
std::optional<Prediction> predicted(const std::vector<const TracedCall*>& calls,
                                    const std::vector<const TracedCall*>& alike) {
  const auto whole = std::ranges::find_if(calls, [](const TracedCall* call) { return !call->members().empty(); });
  return whole == calls.end() ? std::nullopt : predict(**whole, alike);
}

void print_calls(const TraceFile& trace) {
  std::map<Kind, std::vector<const TracedCall*>> kinds;
  std::map<std::string, std::vector<const TracedCall*>> by_algorithm;
  for (const TracedCall& call : trace.calls) {
    if (call.ranks.size() < 2) continue;
    kinds[kind_of(call)].push_back(&call);
    by_algorithm[call.algorithm].push_back(&call);
  }
  fmt::print("\n{:<15}{:<20}{:>6}{:>8}{:>8}{:>12}{:>12}{:>12}\n", "call", "algorithm", "ranks", "size", "calls",
             "predicted", "median", "longest");
  for (const auto& [kind, calls] : kinds) {
    std::vector<std::int64_t> times;
    for (const TracedCall* call : calls) times.push_back(call->end() - call->begin());
    std::sort(times.begin(), times.end());
    const std::optional<Prediction> expected = predicted(calls, by_algorithm[kind.algorithm]);
    fmt::print("{:<15}{:<20}{:>6}{:>8}{:>8}{:>12}{:>12}{:>12}\n", name_of(kind.collective), kind.algorithm, kind.ranks,
               simulate::size_text(kind.bytes), calls.size(),
               expected ? duration_text(static_cast<std::int64_t>(expected->end)) : "-",
               duration_text(static_cast<std::int64_t>(measure::median({times.begin(), times.end()}))),
               duration_text(times.back()));
  }
}

void print_ranks(const TraceFile& trace, const Verdicts& verdicts) {
  fmt::print("\n{:<8}{:>16}{:>22}{:>22}\n", "rank", "waited", "came late, for others", "slow inside, for them");
  for (const auto& [rank, who] : trace.ranks) {
    const auto found = verdicts.ranks.find(rank);
    const RankBlame blame = found == verdicts.ranks.end() ? RankBlame{} : found->second;
    fmt::print("{:<8}{:>16}{:>22}{:>22}\n", rank, duration_text(blame.waited), duration_text(blame.late.time),
               duration_text(blame.slow.time));
  }
}

void print_links(const Verdicts& verdicts) {
  std::vector<std::pair<std::int64_t, std::pair<int, int>>> links;
  for (const auto& [link, blame] : verdicts.links) links.emplace_back(blame.time, link);
  std::sort(links.rbegin(), links.rend());
  links.resize(std::min<std::size_t>(links.size(), 5));
  if (links.empty()) return;
  fmt::print("\nlinks whose messages took longer than such messages elsewhere:\n");
  for (const auto& [time, link] : links) fmt::print("  {} -> {}  {}\n", link.first, link.second, duration_text(time));
}

/// They last until the failure is noticed, which says nothing about calls.
void print_failed(const TraceFile& trace) {
  constexpr std::size_t most_told = 5;
  for (std::size_t i = 0; i < std::min(trace.failed.size(), most_told); ++i) {
    const TracedCall& call = trace.failed[i];
    std::vector<std::string> parts;
    if (!call.failed.empty()) parts.push_back(fmt::format("failed on rank {}", fmt::join(call.failed, ", ")));
    if (!call.unfinished.empty())
      parts.push_back(fmt::format("was never ended by rank {}", fmt::join(call.unfinished, ", ")));
    fmt::print("{} {}\n", call.name, fmt::join(parts, ", and "));
  }
  if (trace.failed.size() > most_told)
    fmt::print("{} more calls failed or were never ended\n", trace.failed.size() - most_told);
}

void report(const std::string& path) {
  const TraceFile trace = read_trace("trace", path);
  const Verdicts verdicts = judge(trace.calls);
  fmt::print("{}: {} ranks, {} calls, {} in calls\n", path, trace.ranks.size(), trace.calls.size(),
             duration_text(verdicts.in_calls));
  print_failed(trace);
  for (const auto& [rank, who] : trace.ranks) {
    if (who.lost > 0) fmt::print("rank {}: {} of its records are lost\n", rank, who.lost);
    if (who.uncertainty != 0)
      fmt::print("rank {} (host {}): {}\n", rank, who.host,
                 who.uncertainty < 0 ? "its clock was not compared with that of the others' hosts"
                                     : fmt::format("its clock is that of rank {} within {}", who.reference,
                                                   duration_text(who.uncertainty)));
  }
  if (trace.unnamed > 0)
    fmt::print(
        "{} calls of single ranks are left out: they are of further communicators than the {} that a rank's trace "
        "tells apart\n",
        trace.unnamed, trace::Memory::most_groups);
  if (trace.calls.empty()) return;
  print_calls(trace);
  print_ranks(trace, verdicts);
  print_links(verdicts);
  fmt::print("\n");
  for (const Conclusion& conclusion : conclusions(verdicts, trace.ranks)) fmt::print("{}\n", conclusion.text);
}

}  // namespace

int trace_main(int argc, char** argv) {
  CLI::App app{"Summarises the trace of a run: how long calls took and should have taken, and which rank was slow.",
               "tutti trace"};
  app.set_help_flag("-h,--help", "Show this help");
  std::string path;
  app.add_option("FILE", path, "The file that `tutti run --trace FILE` wrote")->required();
  app.footer(trace_examples);
  if (!parse_command_line(app, argc, argv, "trace")) return exit_success;
  report(path);
  return exit_success;
}

}  // namespace tutti::cli
