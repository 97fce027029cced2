#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "cli/simulate/network.h"
#include "cli/simulate/simulated_call.h"

namespace tutti::cli::simulate {

/// One simulated call, and the cost of simulating it.
struct Timed {
  SimulatedCall simulated;
  Result result;
  double effort = 0;  ///< seconds
};

/// By commands on a GPU; else by sweep if possible, else event by event. Throws Error{unsupported} if the plans are too
/// large for either.
Timed simulate(const SimulatedCall& simulated, const Network& network);

struct Job {
  SimulatedCall simulated;
  Network network;
};
/// Receives reports of progress; called by one thread at a time.
using Told = std::function<void(const std::string&)>;
/// Simulates all jobs, on as many threads as there are cores, the largest first; results are in the given order.
std::vector<Timed> simulate_all(const std::vector<Job>& jobs, const Told& tell = {});

/// Calls work(0) to work(count - 1), begun in that order, on as many threads as there are cores (at most four, since
/// each may hold a gigabyte). After an exception no further work begins, and the first exception is rethrown.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work);

/// Reports progress before each piece of work.
class Tally {
 public:
  Tally(std::size_t count, const Told& tell) : count_(count), tell_(tell) {}
  void begin(const SimulatedCall& simulated);

 private:
  std::size_t count_;
  const Told& tell_;
  std::mutex mutex_;
  std::size_t begun_ = 0;
};

/// nccl-tests' bus bandwidth in bytes per second.
double bus_bandwidth(const Timed& timed);

std::string to_table(const std::vector<Timed>& all);
std::string to_csv(const std::vector<Timed>& all);
/// Time over ranks if those vary, else over sizes; a curve per algorithm (and size). The title names the one that does
/// not vary.
std::string to_svg(const std::vector<Timed>& all, const std::string& of);

/// "12.3 us", "4.56 ms".
std::string time_text(double seconds);
/// "8", "64K", "64M".
std::string size_text(std::size_t bytes);

}  // namespace tutti::cli::simulate
