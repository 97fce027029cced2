// The program tutti-rival-limit: the time of a call if nothing but the machine limited it. It is a model made of
// measured rates, not a proof. A library that keeps data in a nearer cache than the model assumes, or whose rooted
// calls do not wait for all ranks, can beat it.

#include "cli/bench/compare_libraries/rivals/limit.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <stdexcept>

#include "cli/bench/compare_libraries/rivals/arguments.h"
#include "cli/bench/compare_libraries/rivals/device.h"

namespace tutti::cli::measure {
namespace {

/// Measures each rate once, at its first use.
class Rates {
 public:
  double copy(Level level, int processes) { return kept({0, static_cast<int>(level), processes}, copy_rate); }
  double reduce(Level level, int processes) { return kept({1, static_cast<int>(level), processes}, reduce_rate); }

 private:
  double kept(std::array<int, 3> key, double (*measure_rate)(Level, int)) {
    const auto [place, is_new] = known_.try_emplace(key, 0.0);
    if (is_new) place->second = measure_rate(static_cast<Level>(key[1]), key[2]);
    return place->second;
  }
  std::map<std::array<int, 3>, double> known_;
};

bool everybody_waits_for_all(MeasuredCall call) {
  return call.is_collective() &&
         (call == Collective::barrier || call.collective == Collective::all_reduce || call == Collective::all_gather);
}

/// Bytes of all ranks' buffers together, which decide the cache level.
double footprint(const Task& task) {
  const double bytes = static_cast<double>(task.bytes);
  const double ranks = task.ranks;
  if (task.call == all_reduce_in_place) return bytes * ranks;
  if (task.call == send_recv) return 2 * bytes * ranks;
  switch (task.call.collective) {
    case Collective::reduce:
    case Collective::broadcast:
      return bytes * ranks;
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return bytes * ranks + bytes;
    case Collective::gather:
    case Collective::scatter:
      return 2 * bytes;
    case Collective::all_reduce:
    case Collective::all_to_all:
    case Collective::barrier:
    case Collective::scan:
    case Collective::exclusive_scan:
      return 2 * bytes * ranks;
  }
  return 0;
}

/// Bytes that all ranks together must copy within memory.
double copied(const Task& task) {
  const double bytes = static_cast<double>(task.bytes);
  const double ranks = task.ranks;
  if (task.call == send_recv) return ranks * bytes;
  switch (task.call.collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
      return (ranks - 1) * bytes;
    case Collective::all_gather:
    case Collective::all_to_all:
      return ranks * bytes;
    case Collective::reduce:
      return bytes / 2;
    case Collective::reduce_scatter:
    case Collective::scatter:
    case Collective::gather:
    case Collective::barrier:
    case Collective::scan:
    case Collective::exclusive_scan:
      return bytes;
  }
  return 0;
}

/// Bytes that must pass through sockets.
double sent(const Task& task) {
  const double bytes = static_cast<double>(task.bytes);
  const double ranks = task.ranks;
  if (task.call == send_recv) return ranks * bytes;
  switch (task.call.collective) {
    case Collective::all_reduce:
      return 2 * (ranks - 1) * bytes;
    case Collective::gather:
    case Collective::scatter:
      return (ranks - 1) * bytes / ranks;
    case Collective::reduce:
    case Collective::broadcast:
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::barrier:
    case Collective::scan:
    case Collective::exclusive_scan:
      return (ranks - 1) * bytes;
  }
  return 0;
}

/// The least bytes, read and written, of a call whose ranks share a GPU: each of them reads what it needs once, and
/// writes its result once.
double moved_on_gpu(const Task& task) {
  const double bytes = static_cast<double>(task.bytes);
  const double ranks = task.ranks;
  if (task.call == send_recv) return 2 * ranks * bytes;
  switch (task.call.collective) {
    case Collective::all_reduce:
    case Collective::all_to_all:
    case Collective::scan:
    case Collective::exclusive_scan:
      return 2 * ranks * bytes;
    case Collective::broadcast:
      return ranks * bytes;
    case Collective::reduce:
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return (ranks + 1) * bytes;
    case Collective::gather:
    case Collective::scatter:
      return 2 * bytes;
    case Collective::barrier:
      break;
  }
  return 0;
}

class Model {
 public:
  Model(const Arguments& arguments) : arguments_(arguments), both_(std::min(arguments.ranks, 2)) {
    if (arguments.transport == "gpu") {
      if (cuda::driver().devices > 1)
        throw std::runtime_error("there is no limit for ranks on several GPUs: CUDA_VISIBLE_DEVICES=0 leaves them one");
      gpu_rate_ = arguments.gpu_rate > 0 ? arguments.gpu_rate : gpu_copy_rate();
      return;
    }
    const int cores = static_cast<int>(first_two_cores().size());
    both_ = std::min(both_, cores);
    if (arguments.transport == "tcp") {
      round_trip_ = tcp_round_trip();
      one_way_ = tcp_stream(false);
      both_ways_ = tcp_stream(true);
    } else if (arguments.ranks > 2) {
      floor_ = barrier_floor(arguments.ranks);
    } else {
      floor_.single = floor_.loop = cache_line_ns(arguments.probe_cores) / 2000;
    }
  }

  Times times(const Task& task) {
    if (gpu_rate_ > 0) {
      const double floor = moved_on_gpu(task) / gpu_rate_ * 1e-3;
      return {.single = floor, .least = floor, .p95 = floor, .loop = floor, .iterations = 1};
    }
    const Level level = level_of(static_cast<std::size_t>(footprint(task)));
    const double bytes = static_cast<double>(task.bytes);
    double moving = 0;
    if (task.call.traits().reduces() && bytes > 0)
      moving += (task.ranks - 1) * bytes / rates_.reduce(level, both_) * 1e-3;
    double begin = floor_.single;
    double loop_begin = floor_.loop;
    if (arguments_.transport == "tcp") {
      const double messages = (task.ranks - 1) * (everybody_waits_for_all(task.call) ? 2 : 1);
      begin = loop_begin = round_trip_ / 2 * std::max(1.0, messages / 2);
      moving += sent(task) / (one_sided(task) ? one_way_ : both_ways_) * 1e-3;
    } else if (bytes > 0) {
      const bool one_copies = task.ranks == 2 && task.call == Collective::broadcast;
      moving += copied(task) / rates_.copy(level, one_copies ? 1 : both_) * 1e-3;
    }
    // A core cannot work for all of its ranks at once.
    const double ranks_of_core = std::max(1.0, static_cast<double>(task.ranks) / arguments_.cores);
    const double computing = arguments_.budget.computing * ranks_of_core;
    Times times;
    times.single = times.least = times.p95 = computing + begin + moving;
    times.loop = computing + loop_begin + moving;
    times.iterations = 1;
    return times;
  }

 private:
  static bool one_sided(const Task& task) { return task.ranks == 2 && task.call.traits().is_rooted(); }

  const Arguments& arguments_;
  int both_;
  Rates rates_;
  Floor floor_;
  double round_trip_ = 0;
  double one_way_ = 1;
  double both_ways_ = 1;
  double gpu_rate_ = 0;  ///< GB/s; 0: calls are on memory of the host
};

void run(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(static_cast<unsigned>(arguments.seconds));
  const double before = cache_line_ns(arguments.probe_cores);
  Model model{arguments};
  std::vector<Times> times;
  for (const std::size_t size : arguments.sizes)
    times.push_back(model.times(task_of(arguments.call, 0, arguments.ranks, size)));
  const double after = cache_line_ns(arguments.probe_cores);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::size_t size = arguments.sizes[i];
    print_row(size, task_of(arguments.call, 0, arguments.ranks, size).bytes, times[i], 0, before, after);
  }
  print_end();
}

}  // namespace
}  // namespace tutti::cli::measure

int main(int argc, char** argv) {
  try {
    tutti::cli::measure::run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
