#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/stream_program.h"
#include "algorithms/window_program.h"

namespace tutti::algorithms {

/// By rank, the first rank on the same GPU, which leads, if neighbours share GPUs: rank r of n is on GPU r * gpus / n.
std::vector<int> first_on_gpus(int ranks, int gpus);

/// The programs in which `runners[rank]` does the tasks of each rank. Tasks that make the same result of the same parts
/// become one, which writes it to all of their ranks. Several ranks on one GPU have a leader, which so reads each input
/// once, in one kernel.
std::vector<WindowProgram> run_by(std::span<const WindowProgram> programs, std::span<const int> runners);

/// Whether, if input and output of each rank are one memory, a task writes what another one uses. Then the inputs must
/// be copied before the tasks begin. `blocks`: of a buffer.
bool collide_in_place(std::span<const WindowProgram> programs, std::size_t blocks);

/// How the ranks of a call use each other's memory; the same on all ranks.
struct TaskStages {
  bool reduces = false;        ///< tasks make the result of elements: contributions, their fold, its average
  bool copies_input = false;   ///< what others read of the input goes to the staging area before,
  bool copies_output = false;  ///< and what they write to the output comes from it afterwards
  bool all_by_copies = false;  ///< this rank reads the copy of its input, too: see collide_in_place()
  bool in_kernels = false;     ///< a kernel that makes a result signals and waits itself: no two ranks share a GPU
};

/// One call as commands on this rank's stream, if ranks can read and write each other's memory. A rank opens
/// its buffers to those that run tasks on them, which is a message without data on the link between the two: its
/// arrival says that the memory may be used, and its credit that the tasks on it are done. So calls of this form and
/// those of StreamProgram may follow each other.
///
/// A buffer that others cannot reach has a copy for them, in the staging area of its rank. If that is too small, the
/// call goes in rounds, and round k has piece k of each copied range.
class StreamTasks {
 public:
  /// `programs`: of all ranks. `sizes`: the same on all ranks, except for what none of the tasks uses. They must
  /// outlive it. `staging`: elements of each rank's area. Throws Error{invalid_argument} if that is too small.
  StreamTasks(int rank, std::span<const WindowProgram> programs, const StreamSizes& sizes, const TaskStages& stages,
              std::size_t staging, std::uint32_t slots);

  std::size_t rounds() const { return rounds_; }
  /// Elements of a range in one round.
  std::size_t piece() const { return piece_; }
  /// Adds the commands of one round. Rounds are asked for in their order, with the counters of all calls.
  void add_round(std::size_t round, StreamCounters& counters, StreamCommands& to) const;

 private:
  class Round;
  using Part = WindowProgram::Part;
  using Task = WindowProgram::Task;

  /// Ranges that have copies in the staging area of a rank, one after the other.
  struct Copies {
    std::vector<Blocks> read;     ///< by tasks
    std::vector<Blocks> written;  ///< the same
  };

  std::span<const Part> sources(const WindowProgram& program, const Task& task) const;
  std::span<const int> destinations(const WindowProgram& program, const Task& task) const;
  void find_copies();
  bool copies(int runner, const Part& source) const;
  std::size_t begin_of(const Blocks& blocks) const;
  std::size_t size_of(const Blocks& blocks) const;
  /// Whether `runner` has tasks that use memory of `owner`, which is another rank.
  bool uses(int runner, int owner) const;

  const int rank_;
  const std::span<const WindowProgram> programs_;
  const StreamSizes& sizes_;
  const TaskStages stages_;
  const std::uint32_t slots_;
  std::vector<Copies> copies_;  // by rank
  std::size_t piece_ = 0;
  std::size_t rounds_ = 0;
};

}  // namespace tutti::algorithms
