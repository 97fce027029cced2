#include "cli/simulate/runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "algorithms/bounds.h"
#include "cli/simulate/commands.h"
#include "cli/simulate/events.h"
#include "cli/simulate/step_count.h"
#include "cli/simulate/sweep.h"
#include "tutti/error.h"

namespace tutti::cli::simulate {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

constexpr unsigned most_threads = 4;  // each may hold a gigabyte

/// Three places, or three digits of what these would round to nothing.
std::string rate_text(double gigabytes_per_second) {
  const bool is_small = gigabytes_per_second > 0 && gigabytes_per_second < 0.01;
  return is_small ? fmt::format("{:.3g}", gigabytes_per_second) : fmt::format("{:.3f}", gigabytes_per_second);
}

}  // namespace

Timed simulate(const SimulatedCall& simulated, const Network& network) {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<Result> result;
  if (network.gpu) {
    result = run_commands(simulated, network);
  } else if (steps_of_one(simulated) <= most_steps) {  // the sweep holds the plan of one rank
    result = run_sweep(simulated, network);
    if (!result) result = run_events(simulated, network);
  }
  if (!result)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("simulate: {} over {} ranks has more than the {:.0f} million steps that can be simulated; take "
                    "fewer ranks, a shorter pipeline or another algorithm.",
                    to_string(simulated.choice), simulated.ranks, most_steps / 1e6));
  return {simulated, *result, seconds_since(begin)};
}

void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr problem;
  const auto some = [&] {
    for (std::size_t at = next++; at < count; at = next++) {
      try {
        work(at);
      } catch (...) {
        const std::lock_guard lock{mutex};
        if (!problem) problem = std::current_exception();
        next = count;
      }
    }
  };
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, most_threads);
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < std::min<std::size_t>(threads, count); ++i) others.emplace_back(some);
  some();
  others.clear();
  if (problem) std::rethrow_exception(problem);
}

void Tally::begin(const SimulatedCall& simulated) {
  if (!tell_) return;
  const std::lock_guard lock{mutex_};
  tell_(fmt::format("{} of {}: {} over {} ranks, {} bytes", ++begun_, count_, to_string(simulated.choice),
                    simulated.ranks, size_text(simulated.bytes)));
}

std::vector<Timed> simulate_all(const std::vector<Job>& jobs, const Told& tell) {
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return jobs[a].simulated.ranks > jobs[b].simulated.ranks; });
  std::vector<Timed> found(jobs.size());
  Tally tally{jobs.size(), tell};
  in_parallel(jobs.size(), [&](std::size_t at) {
    const Job& job = jobs[order[at]];
    tally.begin(job.simulated);
    found[order[at]] = simulate(job.simulated, job.network);
  });
  return found;
}

double bus_bandwidth(const Timed& timed) {
  const double factor = algorithms::bus_factor(timed.simulated.collective, timed.simulated.ranks);
  return timed.result.seconds > 0 ? factor * static_cast<double>(timed.simulated.bytes) / timed.result.seconds : 0;
}

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  if (seconds >= 1e-6) return fmt::format("{:.2f} us", seconds * 1e6);
  return seconds >= 1e-9 ? fmt::format("{:.3f} ns", seconds * 1e9) : fmt::format("{:.0f} ps", seconds * 1e12);
}

std::string size_text(std::size_t bytes) {
  constexpr std::string_view units[] = {"", "K", "M", "G"};
  std::size_t unit = 0;
  while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) bytes /= 1024, ++unit;
  return fmt::format("{}{}", bytes, units[unit]);
}

std::string to_table(const std::vector<Timed>& all) {
  std::string text = fmt::format("{:>6} {:>6}  {:<26}{:>12}{:>10}{:>12} {}\n", "ranks", "bytes", "algorithm", "time",
                                 "bus GB/s", "messages", "how");
  for (const Timed& one : all)
    text += fmt::format("{:>6} {:>6}  {:<26}{:>12}{:>10}{:>12.0f} {}\n", one.simulated.ranks,
                        size_text(one.simulated.bytes), to_string(one.simulated.choice), time_text(one.result.seconds),
                        rate_text(bus_bandwidth(one) * 1e-9), one.result.messages, one.result.engine);
  return text;
}

std::string to_csv(const std::vector<Timed>& all) {
  std::string text = "collective,algorithm,ranks,bytes,seconds,bus_bytes_per_second,messages,engine\n";
  for (const Timed& one : all)
    text += fmt::format("{},{},{},{},{:.12g},{:.6g},{:.0f},{}\n", name_of(one.simulated.collective),
                        to_string(one.simulated.choice), one.simulated.ranks, one.simulated.bytes, one.result.seconds,
                        bus_bandwidth(one), one.result.messages, one.result.engine);
  return text;
}

}  // namespace tutti::cli::simulate
