#include "cli/bench/numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "algorithms/bounds.h"
#include "lib/base/collective_traits.h"
#include "tutti/error.h"

namespace tutti::cli::bench {
namespace {

/// Elements from rank `from` to rank `to`: between half and one and a half times `part`, about `part` on average.
std::size_t uneven(std::size_t part, int from, int to, int ranks) {
  if (ranks == 1) return part;
  const auto step = static_cast<std::size_t>((from + to) % ranks);
  return part / 2 + part * step / static_cast<std::size_t>(ranks - 1);
}

std::size_t sum_of(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

void set_uneven(Shape& shape, int rank, int ranks) {
  for (int peer = 0; peer < ranks; ++peer) {
    shape.send_counts.push_back(uneven(shape.count, rank, peer, ranks));
    shape.recv_counts.push_back(uneven(shape.count, peer, rank, ranks));
  }
  shape.send_count = sum_of(shape.send_counts);
  shape.recv_count = sum_of(shape.recv_counts);
  // Each rank sends the same counts, only to other peers.
  shape.largest = std::max(shape.send_count, shape.recv_count);
}

/// Smallest value with at least `percent` of them at or below it.
double percentile(const std::vector<double>& sorted, int percent) {
  const std::size_t place = (sorted.size() * static_cast<std::size_t>(percent) + 99) / 100;
  return sorted[std::clamp<std::size_t>(place, 1, sorted.size()) - 1];
}

}  // namespace

Shape shape_of(MeasuredCall what, std::size_t bytes, std::size_t element, int rank, int ranks) {
  const std::size_t whole = bytes / element;
  const std::size_t n = static_cast<std::size_t>(ranks);
  const std::size_t unit = std::max<std::size_t>(1, 16 / element);
  const std::size_t part = whole / n / unit * unit;
  if (what == Collective::barrier) return {};
  if (what == measure::all_to_all_v) {
    Shape shape;
    shape.count = part;
    set_uneven(shape, rank, ranks);
    return shape;
  }
  const detail::CollectiveTraits& traits = what.traits();
  if (!traits.has_parts()) return {whole, whole, whole, {}, {}, whole};
  return {part, traits.gathers() ? part : part * n, traits.scatters() ? part : part * n, {}, {}, part * n};
}

std::vector<std::size_t> sizes_of(const Options& options) {
  if (options.what == Collective::barrier) return {0};
  std::vector<std::size_t> sizes;
  std::size_t size = options.min_bytes;
  while (size <= options.max_bytes) {
    sizes.push_back(size);
    if (options.step_factor == 1 && options.step_bytes == 0) break;
    size = options.step_factor > 1 ? std::max<std::size_t>(1, size * options.step_factor) : size + options.step_bytes;
  }
  return sizes;
}

double bus_factor(MeasuredCall what, int ranks) {
  return what == measure::send_recv ? 1 : algorithms::bus_factor(what.collective, ranks);
}

Bandwidth bandwidth(MeasuredCall what, std::size_t bytes, double microseconds, int ranks) {
  if (microseconds <= 0) return {};
  const double algorithm = static_cast<double>(bytes) / 1e3 / microseconds;
  return {algorithm, algorithm * bus_factor(what, ranks)};
}

Statistics statistics(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  Statistics result;
  result.least = times.front();
  result.most = times.back();
  result.p50 = percentile(times, 50);
  result.p95 = percentile(times, 95);
  result.p99 = percentile(times, 99);
  const auto n = static_cast<double>(times.size());
  result.mean = std::accumulate(times.begin(), times.end(), 0.0) / n;
  double squares = 0;
  for (const double time : times) squares += (time - result.mean) * (time - result.mean);
  result.deviation = std::sqrt(squares / n);
  return result;
}

double over_ranks(const std::vector<double>& by_rank, Average how) {
  switch (how) {
    case Average::rank0:
      return by_rank.front();
    case Average::mean:
      return std::accumulate(by_rank.begin(), by_rank.end(), 0.0) / static_cast<double>(by_rank.size());
    case Average::least:
      return *std::min_element(by_rank.begin(), by_rank.end());
    case Average::most:
      return *std::max_element(by_rank.begin(), by_rank.end());
  }
  return by_rank.front();
}

int split_colour(const std::string& split, int rank) {
  std::string word;
  std::size_t at = 0;
  while (at < split.size() && std::isalpha(static_cast<unsigned char>(split[at])) != 0)
    word += static_cast<char>(std::toupper(static_cast<unsigned char>(split[at++])));
  if (word.empty() && at < split.size()) word = split[at++];
  char* end = nullptr;
  const long number = std::strtol(split.c_str() + at, &end, 0);
  const bool complete = end != split.c_str() + at && *end == '\0' && number >= 0 && number < 1 << 20;
  const int by = complete ? static_cast<int>(number) : 0;
  if (complete && (word == "AND" || word == "&")) return rank & by;
  if (complete && (word == "OR" || word == "|")) return rank | by;
  if (by > 0 && (word == "MOD" || word == "%")) return rank % by;
  if (by > 0 && (word == "DIV" || word == "/")) return rank / by;
  throw Error{
      ErrorCode::invalid_argument,
      fmt::format("bench: NCCL_TESTS_SPLIT takes AND, OR, MOD or DIV and a number, e.g. \"MOD 2\", not \"{}\"", split)};
}

int warm_up_calls_left(const Options& options, int done, double seconds) {
  if (!options.warmup && seconds >= usual_warmup_seconds) return 0;
  return options.warmup.value_or(usual_warmup) * options.aggregate - done;
}

int iterations_for(const Options& options, double expected_seconds) {
  const double once = std::max(expected_seconds, 1e-8);
  double iterations = options.iterations.value_or(usual_iterations);
  const double least = options.min_time > 0 ? options.min_time : options.iterations ? 0 : usual_seconds;
  iterations = std::max(iterations, std::ceil(least / once));
  if (options.max_time > 0) iterations = std::min(iterations, std::floor(options.max_time / once));
  return static_cast<int>(std::clamp<double>(iterations, 1.0 + options.skip, most_iterations));
}

int single_calls_for(const Options& options, int wanted, int done, double seconds) {
  constexpr double usual_most = 1;
  const double most = options.max_time > 0 ? options.max_time : std::max(usual_most, options.min_time);
  const double affordable = std::floor(most / std::max(seconds, 1e-9) * done);
  const double least = std::max({done, 1 + options.skip, options.max_time > 0 ? 0 : options.iterations.value_or(0)});
  return static_cast<int>(std::min<double>(wanted, std::max(least, affordable)));
}

}  // namespace tutti::cli::bench
