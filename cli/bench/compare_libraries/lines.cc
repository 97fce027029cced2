#include "cli/bench/compare_libraries/lines.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/bench/compare_libraries/figures.h"
#include "cli/bench/compare_libraries/hosts.h"
#include "cli/bench/numbers.h"
#include "tutti/error.h"

namespace tutti::cli::versus {
namespace {

using MeasuredCall = measure::MeasuredCall;

constexpr std::size_t grid_sizes[] = {4, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20};
constexpr int grid_ranks[] = {2, 4, 8, 16};
constexpr int many_ranks = 16;
constexpr std::size_t most_with_many = 64 << 10;

/// All other options would have no effect, so they are refused.
constexpr std::string_view taken[] = {"nthreads",    "ngpus",       "minbytes",  "maxbytes", "stepbytes", "stepfactor",
                                      "timeout",     "output-file", "format",    "progress", "transport", "min-time",
                                      "max-time",    "against",     "grid",      "summary",  "csv",       "svg",
                                      "repetitions", "rivals-dir",  "peers-dir", "compute",  "on"};

void refuse_others(const bench::Options& options) {
  for (const std::string& name : options.given)
    if (std::find(std::begin(taken), std::end(taken), name) == std::end(taken))
      throw Error{ErrorCode::unsupported,
                  fmt::format("bench: --{} has no effect on a comparison with other libraries (float, sum, root 0); "
                              "leave it out",
                              name)};
}

/// Some of the others have no effect on rows that are there already.
constexpr std::string_view measuring[] = {"timeout",    "min-time",  "max-time", "against",
                                          "rivals-dir", "peers-dir", "compute"};

void refuse_measuring(const bench::Options& options) {
  for (const std::string& name : options.given)
    if (std::find(std::begin(measuring), std::end(measuring), name) != std::end(measuring))
      throw Error{ErrorCode::invalid_argument,
                  fmt::format("bench: --{} has no effect with --summary, which measures nothing; leave it out", name)};
}

bool was_given(const bench::Options& options, std::string_view name) {
  return std::find(options.given.begin(), options.given.end(), name) != options.given.end();
}

std::vector<std::string> transports(const bench::Options& options) {
  if (options.on_gpu && !options.transport.empty())
    throw Error{ErrorCode::invalid_argument,
                "bench: --transport has no meaning with --against and --on gpu, where each library finds its way"};
  if (options.on_gpu) return {"gpu"};
  if (options.transport.empty() && options.grid) return {"shm", "tcp"};
  if (options.transport.empty()) return {"shm"};
  if (options.transport != "shm" && options.transport != "tcp" && hosts_of(options.transport) == 0)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("bench: with --against --transport is shm, tcp or hosts:2 to hosts:{}, not \"{}\"",
                            most_hosts, options.transport)};
  return {options.transport};
}

/// Without a name those that all libraries have.
std::vector<MeasuredCall> calls(const bench::Options& options) {
  if (!options.has_collective) {
    std::vector<MeasuredCall> all{measure::all_calls.begin(), measure::all_calls.end()};
    std::erase_if(all, [&](MeasuredCall call) {
      const bool without_memory = call == Collective::barrier && options.on_gpu;
      return call.traits().is_scan() || call == measure::all_to_all_v || without_memory;
    });
    return all;
  }
  if (options.what == Collective::barrier && options.on_gpu)
    throw Error{ErrorCode::invalid_argument, "bench: a barrier has no memory that could be on a GPU; leave out --on"};
  if (options.what == measure::all_to_all_v)
    throw Error{ErrorCode::unsupported,
                fmt::format("bench: {} is not compared with other libraries", name_of(options.what))};
  if (options.grid && options.what == Collective::all_reduce) return {options.what, measure::all_reduce_in_place};
  return {options.what};
}

bool has_steps(const bench::Options& options) {
  return was_given(options, "stepfactor") || was_given(options, "stepbytes");
}

/// In ascending order.
std::vector<std::size_t> steps_of(const bench::Options& options) {
  std::vector<std::size_t> all = bench::sizes_of(options);
  std::sort(all.begin(), all.end());
  return all;
}

/// The requested steps, the single size between -b and -e, or the sizes of the grid between them.
std::vector<std::size_t> sizes(const bench::Options& options, MeasuredCall call, int ranks) {
  if (call == Collective::barrier) return {0};
  if (has_steps(options) || options.min_bytes == options.max_bytes) return steps_of(options);
  std::vector<std::size_t> fitting;
  for (const std::size_t size : grid_sizes) {
    const bool inside = size >= options.min_bytes && size <= options.max_bytes;
    if (inside && (ranks < many_ranks || size <= most_with_many)) fitting.push_back(size);
  }
  return fitting;
}

std::vector<int> ranks(const bench::Options& options) {
  constexpr int by_default = 2;
  const bool given = was_given(options, "ngpus") || was_given(options, "nthreads");
  if (!given && options.grid) return {std::begin(grid_ranks), std::end(grid_ranks)};
  const int count = given ? options.ranks() : by_default;
  if (count < 2 || count > measure::most_ranks)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("bench: {} ranks cannot be compared, 2 to {} can (-g)", count, measure::most_ranks)};
  return {count};
}

void check_hosts(const std::string& transport, int ranks) {
  const int hosts = hosts_of(transport);
  if (hosts > 0 && ranks % hosts != 0)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("bench: {} ranks are not as many on each of {} hosts (-g)", ranks, hosts)};
}

bool selects_size(const bench::Options& options, const Point& point) {
  if (point.call == Collective::barrier) return true;
  if (was_given(options, "minbytes") && point.size < options.min_bytes) return false;
  if (was_given(options, "maxbytes") && point.size > options.max_bytes) return false;
  if (!has_steps(options)) return true;
  const std::vector<std::size_t> steps = steps_of(options);
  return std::binary_search(steps.begin(), steps.end(), point.size);
}

/// An option that is not given selects all.
bool selects(const bench::Options& options, const Point& point) {
  const std::string transport = options.on_gpu ? "gpu" : options.transport;
  if (!transport.empty() && point.transport != transport) return false;
  const bool in_place = options.what == Collective::all_reduce && point.call == measure::all_reduce_in_place;
  if (options.has_collective && point.call != options.what && !in_place) return false;
  if ((was_given(options, "ngpus") || was_given(options, "nthreads")) && point.ranks != options.ranks()) return false;
  return selects_size(options, point);
}

}  // namespace

std::vector<Line> lines_of(const bench::Options& options) {
  refuse_others(options);
  std::vector<Line> lines;
  for (const std::string& transport : transports(options))
    for (const MeasuredCall call : calls(options))
      for (const int count : ranks(options)) {
        check_hosts(transport, count);
        Line line{transport, call, count, sizes(options, call, count)};
        if (!line.sizes.empty()) lines.push_back(std::move(line));
      }
  if (lines.empty())
    throw Error{ErrorCode::invalid_argument, "bench: none of the grid's sizes lies between -b and -e; give steps (-f)"};
  return lines;
}

std::vector<Line> lines_of_rows(const bench::Options& options, std::span<const Row> rows) {
  refuse_others(options);
  refuse_measuring(options);
  std::vector<Line> lines;
  for (const Point& point : points_of(rows)) {
    if (!selects(options, point)) continue;
    const auto continues = [&](const Line& line) {
      return line.transport == point.transport && line.call == point.call && line.ranks == point.ranks;
    };
    if (lines.empty() || !continues(lines.back())) lines.push_back({point.transport, point.call, point.ranks, {}});
    lines.back().sizes.push_back(point.size);
  }
  if (lines.empty())
    throw Error{ErrorCode::invalid_argument,
                fmt::format("bench: {} has no row of that kind; without other options all of them count", options.csv)};
  const auto order = [](const Line& line) {
    return std::pair{line.transport, std::ranges::find(measure::all_calls, line.call)};
  };
  std::ranges::stable_sort(lines, {}, order);
  return lines;
}

}  // namespace tutti::cli::versus
