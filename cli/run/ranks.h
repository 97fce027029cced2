#pragma once

#include <sched.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cli/run/environment.h"
#include "cli/run/output.h"
#include "cli/run/process.h"
#include "cli/run/run.h"

namespace tutti::cli {

using Clock = std::chrono::steady_clock;

/// One rank of this node: its process, its last output, its end.
class Rank {
 public:
  /// Memory that a rank writes and that outlives it; empty if it could not be made.
  struct Memories {
    Descriptor black_box;
    Descriptor trace;
  };
  Rank(int number, Process process, const std::string& label, bool lines, Transcript transcript, Memories memories,
       Outlet& out, Outlet& err);

  int number() const { return number_; }
  pid_t pid() const { return pid_; }
  bool running() const { return !ended_; }
  bool gone() const { return gone_; }
  std::array<RankOutput, 2>& outputs() { return outputs_; }
  const Transcript& transcript() const { return *transcript_; }
  const Descriptor& black_box() const { return memories_.black_box; }
  const Descriptor& trace() const { return memories_.trace; }

  /// True if the process has ended since the last call; from then on exit_code(), was_killed() and how_it_ended() are
  /// valid. The process stays a zombie until clear(), so that its group's number cannot be reused.
  bool notice_end();
  int exit_code() const { return exit_code_; }
  bool was_killed() const { return killed_; }
  /// "exited with code 3", "was killed by SIGSEGV".
  const std::string& how_it_ended() const { return how_; }

  /// Signals the whole process group.
  void signal(int number) const;
  /// Reads all available output.
  void drain();
  bool outputs_open() const { return outputs_[0].open() || outputs_[1].open(); }
  /// Kills the rest of the group and forgets it.
  void clear();

 private:
  int number_;
  pid_t pid_;
  Memories memories_;
  std::unique_ptr<Transcript> transcript_;  // on the heap: outputs_ point to it
  std::array<RankOutput, 2> outputs_;
  bool ended_ = false;
  bool gone_ = false;
  bool killed_ = false;
  int exit_code_ = 0;
  std::string how_;
};

/// Starts local rank `local_rank` of the job.
class JobTrace;
Rank start_rank(const Job& job, const RendezvousUrl& rdzv, const JobTrace& trace, int local_rank, Start start,
                Outlet& out, Outlet& err);

/// The cores of local rank `local_rank` if each rank gets its share in the way of `mapping`: several cores each, or
/// several ranks per core.
cpu_set_t share_of_cores(const cpu_set_t& all, int local_rank, int ranks_here, Mapping mapping = Mapping::block);

/// Processes whose parent is this one, zombies included.
std::vector<pid_t> children();

/// Processes that outlive their parents become our children. Reaps those of them that have ended, except `ranks`.
void reap_orphans(const std::vector<Rank>& ranks);
/// Call it when all ranks are gone: kills all children and their descendants, until none is left or `until`, and at
/// least a second, has passed, except `others`, which this process had before it was a runner. SIGCHLD must be blocked.
void end_orphans(Clock::time_point until, const std::vector<pid_t>& others);

}  // namespace tutti::cli
