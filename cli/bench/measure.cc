#include "cli/bench/measure.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <numeric>

namespace tutti::cli::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double stamp(const Options& options) { return options.cpu_time ? processor_seconds() : seconds_now(); }

/// One iteration, with the barriers that -z requests.
void iterate(Case& work, Placement placement, const Options& options, Control& control) {
  for (int i = 0; i < options.aggregate; ++i) {
    work.call(placement);
    if (options.blocking == 1) control.barrier();
  }
}

/// Seconds per call on this rank, back to back.
double loop(Case& work, Placement placement, int iterations, const Options& options, Control& control) {
  control.barrier();
  double apart = 0;
  const double begin = stamp(options);
  for (int i = 0; i < iterations; ++i) {
    iterate(work, placement, options, control);
    if (options.blocking != 3) continue;
    const double waiting = stamp(options);
    control.barrier();
    apart += stamp(options) - waiting;
  }
  const double spent = stamp(options) - begin - apart;
  return spent / iterations / options.aggregate;
}

/// Waits until the common start. True if it had passed already.
bool open_window(Control& control) {
  constexpr double ahead = 100e-6;
  const double start = control.from_first(seconds_now() + ahead * control.size());
  if (seconds_now() > start) return true;
  while (seconds_now() < start) ::sched_yield();
  return false;
}

bool meet(const Options& options, Control& control) {
  if (options.sync == Sync::barrier) control.barrier();
  return options.sync == Sync::window && open_window(control);
}

}  // namespace

double warm_up(Case& work, Placement placement, const Options& options, Control& control) {
  // Every `between_looks` calls the ranks agree on whether time is over: rank 0's clock decides for all.
  constexpr int between_looks = 10;  // after the first call, which may take seconds
  control.barrier();
  double spent = 0, last = 0;
  for (int done = 0, left = 1; left > 0; left = warm_up_calls_left(options, done, spent)) {
    const int calls = done == 0 ? 1 : std::min(between_looks, left);
    const double begin = seconds_now();
    for (int i = 0; i < calls; ++i) work.call(placement);
    const double took = control.from_first(seconds_now() - begin);
    spent += took;
    last = took / calls;
    done += calls;
  }
  return last;
}

void extend_series(Case& work, Placement placement, int iterations, const Options& options, Control& control,
                   Series& series) {
  constexpr int first = 16;  // they show how long the rest would take
  std::vector<double> times;
  double late = 0;
  const double begun = seconds_now();
  for (int i = 0; i < iterations; ++i) {
    if (i == first) iterations = single_calls_for(options, iterations, i, control.from_first(seconds_now() - begun));
    if (meet(options, control)) ++late;
    const double begin = stamp(options);
    iterate(work, placement, options, control);
    times.push_back((stamp(options) - begin) / options.aggregate * 1e6);
  }
  const std::vector<double> all = control.gather(times);
  const std::vector<double> lates = control.gather(late);
  series.seconds += seconds_now() - begun;
  if (control.rank() != 0) return;
  series.by_rank.resize(static_cast<std::size_t>(control.size()));
  series.late += static_cast<int>(*std::max_element(lates.begin(), lates.end()));
  for (std::size_t i = 0; i < times.size(); ++i) {
    double slowest = 0;
    for (std::size_t rank = 0; rank < series.by_rank.size(); ++rank) {
      series.by_rank[rank].push_back(all[rank * times.size() + i]);
      slowest = std::max(slowest, series.by_rank[rank].back());
    }
    series.slowest.push_back(slowest);
  }
}

std::int64_t verify(Case& work, Placement placement, int repetition, Control& control) {
  work.prepare(placement, repetition);
  control.barrier();
  work.call(placement);
  const std::vector<double> wrong = control.gather(static_cast<double>(work.count_wrong(placement, repetition)));
  return static_cast<std::int64_t>(std::accumulate(wrong.begin(), wrong.end(), 0.0));
}

Timing measure(Case& work, Placement placement, const Options& options, Control& control) {
  work.prepare(placement, 0);
  const double expected = warm_up(work, placement, options, control) * options.aggregate;
  Timing timing;
  timing.iterations = iterations_for(options, expected);
  if (options.wants_loop()) {
    const std::vector<double> seconds = control.gather(loop(work, placement, timing.iterations, options, control));
    if (control.rank() == 0) timing.microseconds = over_ranks(seconds, options.average) * 1e6;
  }
  if (options.wants_series()) extend_series(work, placement, timing.iterations, options, control, timing.series);
  if (!options.wants_loop()) {
    timing.microseconds = statistics(counted(timing.series, options)).p50;
    timing.iterations = static_cast<int>(timing.series.slowest.size());
  }
  timing.bandwidth = bandwidth(work.row().what, work.row().bytes(), timing.microseconds, work.ranks());
  if (options.check > 0) timing.wrong = 0;
  for (int repetition = 1; repetition <= options.check; ++repetition)
    timing.wrong += verify(work, placement, repetition, control);
  return timing;
}

}  // namespace tutti::cli::bench
