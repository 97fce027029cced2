#include "cli/measure/measure.h"

#include <time.h>

#include <algorithm>
#include <vector>

#include "cli/measure/median.h"

namespace tutti::cli::measure {
namespace {

void warm_up(RankSync& sync, const Budget& budget, const std::function<void()>& call) {
  constexpr int least = 2;
  constexpr int most = 50;
  const double begin = microseconds_now();
  bool more = true;
  for (int i = 1; more; ++i) {
    call();
    const bool time_left = microseconds_now() - begin < budget.milliseconds * 1000 / 5;
    more = sync.decide(i < least || (i < most && time_left));
  }
}

/// Leaves the times of every rank in the shared memory; returns the number of calls.
int single_calls(RankSync& sync, const Budget& budget, const std::function<void()>& call) {
  constexpr int least_of_slow = 2;
  const double begin = microseconds_now();
  for (int count = 0;; ++count) {
    const double milliseconds = (microseconds_now() - begin) / 1000;
    const bool over = count >= most_iterations ||
                      (count >= budget.least_iterations && milliseconds > budget.milliseconds) ||
                      (count >= least_of_slow && milliseconds > budget.most);
    if (!sync.decide(!over)) return count;
    sync.align();
    const double before = microseconds_now();
    call();
    const double after = microseconds_now();
    sync.begin_of(sync.rank())[count] = before;
    sync.end_of(sync.rank())[count] = after;
  }
}

Times judge(RankSync& sync, int count) {
  std::vector<double> slowest;
  std::vector<double> skews;
  for (int i = 0; i < count; ++i) {
    double time = 0;
    double first = sync.begin_of(0)[i];
    double last = first;
    for (int rank = 0; rank < sync.ranks(); ++rank) {
      const double begin = sync.begin_of(rank)[i];
      time = std::max(time, sync.end_of(rank)[i] - begin);
      first = std::min(first, begin);
      last = std::max(last, begin);
    }
    slowest.push_back(time);
    skews.push_back(last - first);
  }
  std::sort(slowest.begin(), slowest.end());
  const auto near_end = std::min(static_cast<std::size_t>(count) - 1, static_cast<std::size_t>(count) * 95 / 100);
  return {median(slowest), slowest.front(), slowest[near_end], 0, median(skews), count};
}

double back_to_back(RankSync& sync, const Budget& budget, const std::function<void()>& call, double expected) {
  const double share = budget.milliseconds * 1000 / 3;
  const int calls = static_cast<int>(std::clamp(share / std::max(expected, 0.05), 2.0, 20'000.0));
  const int loops = expected * calls * 3 > budget.most * 1000 ? 1 : 3;
  std::vector<double> times;
  for (int loop = 0; loop < loops; ++loop) {
    sync.gather();
    sync.align();
    const double begin = microseconds_now();
    for (int i = 0; i < calls; ++i) call();
    times.push_back(sync.largest((microseconds_now() - begin) / calls));
  }
  return median(times);
}

/// Keeps a core busy for that long, not counting the time that other processes take on it.
void compute(double microseconds) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
  };
  volatile double sum = 0;
  for (const double end = now() + microseconds; now() < end;)
    for (int i = 0; i < 100; ++i) sum = sum + i;
}

}  // namespace

Times measure(RankSync& sync, const Budget& budget, const std::function<void()>& alone) {
  const auto both = [&] {
    compute(budget.computing);
    alone();
  };
  const std::function<void()> call = budget.computing > 0 ? both : alone;
  warm_up(sync, budget, call);
  const int count = single_calls(sync, budget, call);
  sync.gather();
  Times times = judge(sync, count);
  sync.gather();
  times.loop = back_to_back(sync, budget, call, times.single);
  times.computing = budget.computing;
  return times;
}

}  // namespace tutti::cli::measure
