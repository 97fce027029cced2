#include "cli/simulate/commands.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "algorithms/board_program.h"
#include "algorithms/stream_tasks.h"
#include "algorithms/window_program.h"
#include "cli/simulate/step_count.h"
#include "lib/api/runners.h"
#include "lib/base/collective_traits.h"
#include "lib/base/index.h"
#include "lib/collective/stream_binding.h"
#include "tutti/error.h"

namespace tutti::cli::simulate {
namespace {

using algorithms::StreamCommand;
using Kind = StreamCommand::Kind;

constexpr std::size_t element_size = 4;
constexpr std::size_t slot_bytes = std::size_t{1} << 20;  // TUTTI_GPU_SLOT_BYTES
constexpr std::uint32_t slots = 2;
constexpr int most_ranks_of_commands = 512;  // signals are kept for each two ranks, and each step looks at all ranks

algorithms::StreamSizes sizes_of(const SimulatedCall& simulated, const algorithms::Shape& shape) {
  const std::size_t elements = simulated.bytes / element_size;
  const bool parts = detail::traits_of(simulated.collective).has_parts();
  const auto partition = detail::Partition::of(simulated.collective, parts ? elements / at(shape.ranks) : elements,
                                               shape.ranks, shape.pipeline, element_size);
  return detail::stream_sizes(partition, partition, shape, element_size);
}

/// All rounds of `program` on the stream of one rank.
template <class Program>
std::vector<StreamCommand> all_of(const Program& program, int ranks) {
  algorithms::StreamCounters counters{ranks};
  algorithms::StreamCommands commands;
  for (std::size_t round = 0; round < program.rounds(); ++round) program.add_round(round, counters, commands);
  return std::move(commands.all);
}

std::vector<std::vector<StreamCommand>> streams_of(const SimulatedCall& simulated, Runner runner) {
  std::vector<algorithms::Plan> plans;
  for (int rank = 0; rank < simulated.ranks; ++rank) plans.push_back(simulated.plan(rank));
  const algorithms::StreamSizes sizes = sizes_of(simulated, plans.front().shape);
  std::vector<std::vector<StreamCommand>> streams;
  std::vector<algorithms::WindowProgram> windows;
  const bool is_mesh = simulated.given == nullptr && simulated.choice.entry->mesh;
  if (is_mesh && simulated.ranks <= detail::most_sharing)
    windows = algorithms::lower_to_windows(algorithms::lower_to_board(plans).programs, simulated.root);
  if (!windows.empty()) {
    std::vector<int> runners(plans.size(), 0);
    if (runner == Runner::each) std::iota(runners.begin(), runners.end(), 0);
    const auto programs = algorithms::run_by(windows, runners);
    const algorithms::TaskStages stages{.reduces = detail::traits_of(simulated.collective).reduces()};
    for (int rank = 0; rank < simulated.ranks; ++rank)
      streams.push_back(all_of(algorithms::StreamTasks{rank, programs, sizes, stages, 0, slots}, simulated.ranks));
    return streams;
  }
  const auto units = algorithms::StreamUnits::of(simulated.collective, plans);
  for (const algorithms::Plan& plan : plans)
    streams.push_back(all_of(
        algorithms::StreamProgram{simulated.collective, plan, units, sizes, {}, {slot_bytes / element_size, slots}},
        simulated.ranks));
  return streams;
}

/// The commands of all ranks, always the one next that can begin first.
class Course {
 public:
  Course(const std::vector<std::vector<StreamCommand>>& streams, const Network::Gpu& costs, int last_runner)
      : streams_(streams),
        costs_(costs),
        runner_(last_runner),
        clock_(streams.size()),
        done_(streams.size()),
        signals_(2 * streams.size() * streams.size()) {}

  /// Whether all come to their ends.
  bool run() {
    for (;;) {
      int first = -1;
      double begin = never;
      bool is_left = false;
      for (int rank = 0; std::cmp_less(rank, streams_.size()); ++rank) {
        if (done_[at(rank)] == streams_[at(rank)].size()) continue;
        is_left = true;
        if (const double at = begin_of(rank); at < begin) begin = at, first = rank;
      }
      if (first < 0) return !is_left;
      run_next(first, begin);
    }
  }

  double end() const { return *std::max_element(clock_.begin(), clock_.end()); }
  double messages() const { return messages_; }
  int last_runner() const { return runner_; }

 private:
  struct Signal {
    std::uint64_t value;
    double at;
  };
  static constexpr double never = std::numeric_limits<double>::infinity();

  const StreamCommand& next(int rank) const { return streams_[at(rank)][done_[at(rank)]]; }

  std::vector<Signal>& signals(bool credit, int from, int to) {
    return signals_[(at(credit ? 1 : 0) * streams_.size() + at(from)) * streams_.size() + at(to)];
  }

  double begin_of(int rank) {
    const StreamCommand& command = next(rank);
    const double now = clock_[at(rank)];
    switch (command.kind) {
      case Kind::signal_arrival:
      case Kind::signal_credit:
        return now;
      case Kind::wait_arrival:
      case Kind::wait_credit:
        break;
      default:
        return std::max(now, gpu_free_);
    }
    if (command.value == 0) return now;
    const std::vector<Signal>& sent = signals(command.kind == Kind::wait_credit, command.peer, rank);
    const auto signal = std::ranges::lower_bound(sent, command.value, {}, &Signal::value);  // values only grow
    return signal == sent.end() ? never : std::max(now, signal->at + costs_.latency);
  }

  void run_next(int rank, double begin) {
    const StreamCommand& command = next(rank);
    double& clock = clock_[at(rank)];
    ++done_[at(rank)];
    switch (command.kind) {
      case Kind::wait_arrival:
      case Kind::wait_credit:
        clock = begin + costs_.wait;
        return;
      case Kind::signal_arrival:
      case Kind::signal_credit:
        clock = begin + costs_.signal;
        signals(command.kind == Kind::signal_credit, rank, command.peer).push_back({command.value, clock});
        messages_ += command.kind == Kind::signal_arrival ? 1 : 0;
        return;
      default:
        break;
    }
    if (runner_ >= 0 && runner_ != rank) begin += costs_.change;
    runner_ = rank;
    const auto bytes = static_cast<double>(command.elements * element_size * (command.sources + command.outputs));
    clock = gpu_free_ = begin + costs_.kernel + bytes * costs_.per_byte;
  }

  const std::vector<std::vector<StreamCommand>>& streams_;
  const Network::Gpu& costs_;
  int runner_;
  double gpu_free_ = 0;
  double messages_ = 0;
  std::vector<double> clock_;      // by rank
  std::vector<std::size_t> done_;  // by rank
  std::vector<std::vector<Signal>> signals_;
};

}  // namespace

std::optional<Result> run_commands(const SimulatedCall& simulated, const Network& network, Runner runner) {
  if (simulated.collective == Collective::barrier)
    throw Error{ErrorCode::unsupported,
                "simulate: a barrier has no memory that could be on a GPU; take another network"};
  if (simulated.ranks > most_ranks_of_commands)
    throw Error{
        ErrorCode::unsupported,
        fmt::format("simulate: {} ranks are more than can share the GPU of a network with \"gpu\" lines ({}); take "
                    "fewer ranks (-n), or another network (--net)",
                    simulated.ranks, most_ranks_of_commands)};
  if (steps_of_all(simulated) > most_steps) return {};
  const auto streams = streams_of(simulated, runner);
  const auto course_after = [&](int last_runner) {
    Course course{streams, *network.gpu, last_runner};
    if (!course.run())
      throw Error{ErrorCode::unsupported,
                  fmt::format("simulate: the streams of {} ranks deadlock with {} (tutti plan --on gpu)",
                              simulated.ranks, to_string(simulated.choice))};
    return course;
  };
  const Course course = course_after(course_after(-1).last_runner());
  return Result{(network.start + course.end()) * 1e-12, course.messages(), "commands"};
}

}  // namespace tutti::cli::simulate
