#include "cli/run/ranks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/base/output.h"
#include "cli/run/signals.h"
#include "cli/run/trace.h"
#include "lib/base/environment.h"
#include "lib/base/host.h"
#include "lib/observe/black_box.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

Transcript open_transcript(const std::string& folder, int rank, bool again) {
  Transcript transcript;
  if (folder.empty()) return transcript;
  const std::string& path = transcript.log_path = fmt::format("{}/rank-{}.log", folder, rank);
  transcript.log =
      Descriptor{::open(path.c_str(), O_WRONLY | O_CREAT | (again ? O_APPEND : O_TRUNC) | O_CLOEXEC, 0666)};
  if (!transcript.log) throw OutputError{"--log-dir", path, errno};
  return transcript;
}

/// Held here, it remains readable after a rank was killed. A rank that gets none makes its own.
Descriptor make_black_box() {
  try {
    return black_box::make_memory();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

Rank::Rank(int number, Process process, const std::string& label, bool lines, Transcript transcript, Memories memories,
           Outlet& out, Outlet& err)
    : number_(number),
      pid_(process.pid),
      memories_(std::move(memories)),
      transcript_(std::make_unique<Transcript>(std::move(transcript))),
      outputs_{RankOutput{std::move(process.out), label, lines, out, *transcript_},
               RankOutput{std::move(process.err), label, lines, err, *transcript_}} {}

bool Rank::notice_end() {
  if (ended_) return false;
  siginfo_t info = {};
  const bool known = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  if (known ? info.si_pid == 0 : errno != ECHILD) return false;
  ended_ = true;
  if (!known) {
    exit_code_ = 1;
    how_ = "ended, and something in this process took its exit code";
  } else if (info.si_code == CLD_EXITED) {
    exit_code_ = info.si_status;
    how_ = fmt::format("exited with code {}", exit_code_);
  } else {
    killed_ = true;
    exit_code_ = 128 + info.si_status;
    how_ = fmt::format("was killed by {}{}", signal_name(info.si_status),
                       info.si_code == CLD_DUMPED ? " (core dumped)" : "");
  }
  return true;
}

void Rank::signal(int number) const {
  if (!gone_) ::kill(-pid_, number);
}

void Rank::drain() {
  for (RankOutput& output : outputs_) {
    for (int reads = 0; reads < 64 && output.open() && output.read_some();) ++reads;  // a survivor may write forever
  }
}

void Rank::clear() {
  if (gone_) return;
  signal(SIGKILL);
  for (RankOutput& output : outputs_) output.close();
  transcript_->log.reset();
  ::waitpid(pid_, nullptr, 0);
  gone_ = true;
}

Rank start_rank(const Job& job, const RendezvousUrl& rdzv, const JobTrace& trace, int local_rank, Start what,
                Outlet& out, Outlet& err) {
  const int number = job.first_rank() + local_rank;
  auto variables = rank_variables(job, rdzv, local_rank);
  Rank::Memories memories{make_black_box(), trace.memory()};
  what.inherited.clear();
  for (const auto& [name, memory] :
       {std::pair{"TUTTI_BLACK_BOX_FD", &memories.black_box}, std::pair{"TUTTI_TRACE_FD", &memories.trace}}) {
    if (!*memory) continue;
    variables.emplace_back(name, std::to_string(memory->get()));
    what.inherited.push_back(memory->get());
  }
  if (!trace.file().empty()) variables.emplace_back("TUTTI_TRACE_FILE", trace.file());
  what.environment = with_variables(variables);
  cpu_set_t cores;
  const bool known = job.binding != Binding::none && ::sched_getaffinity(0, sizeof cores, &cores) == 0;
  if (known && (job.binding == Binding::core || job.ranks_here <= available_cores())) {
    what.cores = share_of_cores(cores, local_rank, job.ranks_here, job.mapping);
  }
  const bool labelled = job.label == Label::always || (job.label == Label::when_several && job.ranks() > 1);
  const bool lines = labelled || job.ranks() > 1;
  Transcript transcript = open_transcript(job.log_dir, number, rdzv.restart > 0);
  return Rank{number,
              start(what),
              labelled ? fmt::format("[{}] ", number) : "",
              lines,
              std::move(transcript),
              std::move(memories),
              out,
              err};
}

RankNeeds needs_of(const Job& job) {
  constexpr int pipes = 2;
  constexpr int black_box = 1;
  const bool traced = !job.trace.empty() || variable("TUTTI_TRACE_FILE");
  const bool tls = job.tls || environment::is_on("TUTTI_TLS");
  const int connection = tls ? 3 : 1;  // with TLS also a pair of sockets, to the thread that encrypts
  const int store = job.node == 0 ? job.nodes * connection : 0;  // of each rank of the job
  return {.descriptors = pipes + black_box + (traced ? 1 : 0) + (job.log_dir.empty() ? 0 : 1) + store};
}

cpu_set_t share_of_cores(const cpu_set_t& all, int local_rank, int ranks_here, Mapping mapping) {
  std::vector<std::size_t> cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &all)) cores.push_back(core);
  }
  const int count = static_cast<int>(cores.size());
  cpu_set_t share;
  CPU_ZERO(&share);
  if (mapping == Mapping::cyclic) {
    for (int i = local_rank % count; i < count; i += std::min(ranks_here, count))
      CPU_SET(cores[static_cast<std::size_t>(i)], &share);
    return share;
  }
  const int first = count * local_rank / ranks_here;
  const int last = std::max(first + 1, count * (local_rank + 1) / ranks_here);
  for (int i = first; i < last; ++i) CPU_SET(cores[static_cast<std::size_t>(i)], &share);
  return share;
}

namespace {

/// The kernel's list of a thread's children may miss some while others end, but an empty list is reliable. For most
/// jobs it avoids a look at every process of the host. False if the kernel has no such list.
bool surely_childless() {
  std::error_code failed;
  for (const auto& thread : std::filesystem::directory_iterator{"/proc/self/task", failed}) {
    std::ifstream file{thread.path() / "children"};
    if (!file || file.peek() != std::ifstream::traits_type::eof()) return false;
  }
  return !failed;
}

}  // namespace

std::vector<pid_t> children() {
  std::vector<pid_t> result;
  if (surely_childless()) return result;
  DIR* const folder = ::opendir("/proc");
  if (folder == nullptr) return result;
  while (const dirent* entry = ::readdir(folder)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    std::ifstream file{fmt::format("/proc/{}/stat", pid)};
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(')');  // "PID (name) STATE PARENT ..."; the name may contain any character
    if (name_end == std::string::npos || name_end + 4 > text.size()) continue;
    if (std::atoi(text.c_str() + name_end + 4) == ::getpid()) result.push_back(pid);
  }
  ::closedir(folder);
  return result;
}

void reap_orphans(const std::vector<Rank>& ranks) {
  const auto ours = [&](pid_t pid) {
    return std::any_of(ranks.begin(), ranks.end(), [&](const Rank& rank) { return !rank.gone() && rank.pid() == pid; });
  };
  siginfo_t info = {};
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 && !ours(info.si_pid)) {
    ::waitpid(info.si_pid, nullptr, 0);
    info = {};
  }
}

void end_orphans(Clock::time_point until, const std::vector<pid_t>& others) {
  // Even without a grace period: a killed process takes a moment to end, and leaves its children to us.
  until = std::max(until, Clock::now() + std::chrono::seconds{1});
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  for (;;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
    std::vector<pid_t> orphans = children();
    std::erase_if(orphans, [&](pid_t pid) { return std::find(others.begin(), others.end(), pid) != others.end(); });
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - Clock::now()).count();
    if (orphans.empty() || left <= 0) return;
    for (const pid_t pid : orphans) ::kill(pid, SIGKILL);  // each of them may leave children to us
    const timespec limit{left / 1'000'000'000, left % 1'000'000'000};
    ::sigtimedwait(&child, nullptr, &limit);
  }
}

}  // namespace tutti::cli
