// The fault matrix: a fault at a place of a plan, and what the survivors say about it.
//
//   fault_matrix [--only WORD] [--jobs N] [--sample-every K]
//
// Where TEST_SAMPLE is a number it says which one of K cases is tried; otherwise all are.
//
// Runs the cases side by side, each in processes of its own that are forked from here, and prints how many there were
// and the slowest detection. Every survivor must throw, name the victim with its process, within a second of a death
// and within a second of the deadline for a rank that is stopped, and leave no process and no descriptor. Where they
// shrink they must all be there, and nobody else, within a second of the last one's call.

#include "tests/failure/fault_matrix.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <new>
#include <optional>
#include <set>

#include "rendezvous/tcp_server.h"
#include "tests/support/sample.h"
#include "tutti/error.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto case_limit = 40s;
constexpr double slack = sanitized ? 5.0 : 1.0;  // seconds, for a detection

/// A store in a process of its own: this one must stay without threads, since it forks.
struct StoreProcess {
  pid_t pid = -1;
  std::uint16_t port = 0;

  StoreProcess() {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const rendezvous::TcpStoreServer server{{"127.0.0.1", 0}};
      const std::uint16_t chosen = server.endpoint().port;
      if (::write(ends[1], &chosen, sizeof chosen) != sizeof chosen) std::abort();
      for (;;) ::pause();
    }
    ::close(ends[1]);
    if (::read(ends[0], &port, sizeof port) != sizeof port) std::abort();
    ::close(ends[0]);
  }
  ~StoreProcess() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
};

struct Running {
  const FaultCase* fault;
  CaseReport* report;
  std::map<pid_t, int> ranks;  // alive, by process
  pid_t victim = -1;
  std::array<pid_t, most_ranks> processes{};
  Clock::time_point begin;

  bool only_victim_left() const { return ranks.size() == 1 && ranks.contains(victim); }
};

class Matrix {
 public:
  Matrix(std::vector<FaultCase> cases, std::size_t jobs) : cases_(std::move(cases)), jobs_(jobs) {}

  /// Returns the cases that were wrong.
  std::vector<FaultCase> run() {
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child, nullptr);
    std::size_t next = 0;
    while (next < cases_.size() || !running_.empty()) {
      while (next < cases_.size() && running_.size() < jobs_) {
        start(cases_[next], static_cast<int>(next));
        ++next;
      }
      const timespec pause{.tv_sec = 0, .tv_nsec = 200'000'000};
      ::sigtimedwait(&child, nullptr, &pause);
      reap();
      finish();
    }
    fmt::print(
        "{} cases, {} wrong; slowest detection of a death {:.3f} s, of a stopped rank {:.3f} s after the "
        "deadline ({})\n",
        cases_.size(), wrong_.size(), slowest_death_, slowest_stop_, slowest_);
    std::vector<FaultCase> wrong;
    for (const FaultCase* fault : wrong_) wrong.push_back(*fault);
    return wrong;
  }

 private:
  void start(const FaultCase& fault, int number) {
    std::fflush(stdout);  // or a child that exits writes it again
    void* memory = ::mmap(nullptr, sizeof(CaseReport), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    Running& running = running_.emplace_back(Running{&fault, new (memory) CaseReport, {}, -1, {}, Clock::now()});
    for (int rank = 0; rank < fault.ranks; ++rank) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigset_t none;
        ::sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        run_rank(fault, rank, store_.port, number, *running.report);
      }
      running.ranks.emplace(pid, rank);
      running.processes[static_cast<std::size_t>(rank)] = pid;
      if (rank == fault.victim) running.victim = pid;
    }
  }

  void reap() {
    for (pid_t pid = ::waitpid(-1, nullptr, WNOHANG); pid > 0; pid = ::waitpid(-1, nullptr, WNOHANG))
      for (Running& running : running_) running.ranks.erase(pid);
  }

  void finish() {
    for (auto it = running_.begin(); it != running_.end();) {
      // A victim that is stopped, or lives on without a network, ends with its case.
      if (it->only_victim_left()) ::kill(it->victim, SIGKILL);
      const bool late = Clock::now() - it->begin > case_limit;
      if (late)
        for (const auto& [pid, rank] : it->ranks) ::kill(pid, SIGKILL);
      if (!it->ranks.empty() && !late) {
        ++it;
        continue;
      }
      judge(*it, late);
      ::munmap(it->report, sizeof(CaseReport));
      it = running_.erase(it);
    }
  }

  void judge(const Running& running, bool late) {
    const FaultCase& fault = *running.fault;
    for (int rank = 0; rank < fault.ranks; ++rank) {
      if (fault.is_victim(rank)) continue;
      const RankReport& report = running.report->ranks[static_cast<std::size_t>(rank)];
      const auto complaint = late                   ? "did not end"
                             : rank == fault.leaver ? wrong_with_leaver(report)
                                                    : wrong_with(running, report);
      if (!complaint) continue;
      wrong_.insert(&fault);
      fmt::print("WRONG {}\n      rank {} {}: \"{}\"\n", fault.describe(), rank, *complaint, report.text.data());
    }
  }

  static std::optional<std::string> wrong_with_leaver(const RankReport& report) {
    if (report.finished == 0 || report.text[0] != 0) return "did not leave in peace";
    return std::nullopt;
  }

  std::optional<std::string> wrong_with(const Running& running, const RankReport& report) {
    const FaultCase& fault = *running.fault;
    const std::string text = report.text.data();
    if (report.finished == 0) return "ended by itself";
    if (report.failed == 0) return "noticed nothing";
    if (!fault.is_victim(report.culprit)) return fmt::format("blamed {}", report.culprit);
    const bool in_world = fault.leaver < 0;
    if ((in_world && text.find(fmt::format("rank {} (", report.culprit)) == std::string::npos) ||
        text.find(fmt::format("pid {}", running.processes[static_cast<std::size_t>(report.culprit)])) ==
            std::string::npos)
      return "does not name the victim";
    if (fault.shrinks())
      if (auto complaint = wrong_with_shrink(running, report)) return complaint;
    if (report.descriptors_after > report.descriptors_before)
      return fmt::format("left {} descriptors", report.descriptors_after - report.descriptors_before);
    return detection(running, report);
  }

  static std::optional<std::string> wrong_with_shrink(const Running& running, const RankReport& report) {
    const FaultCase& fault = *running.fault;
    if (report.shrunk == 0) return "did not shrink";
    std::int64_t last_call = 0;
    int survivors = 0;
    for (const int rank : fault.members()) {
      if (fault.is_victim(rank)) continue;
      ++survivors;
      last_call = std::max(last_call, running.report->ranks[static_cast<std::size_t>(rank)].failed.load());
    }
    if (report.survivors != survivors) return fmt::format("shrank to {} of {} survivors", report.survivors, survivors);
    const double seconds = static_cast<double>(report.shrunk - last_call) / 1e9;
    if (seconds > slack) return fmt::format("took {:.3f} s to shrink", seconds);
    return std::nullopt;
  }

  /// Counts from when both the victim and the survivor were in the call.
  std::optional<std::string> detection(const Running& running, const RankReport& report) {
    const FaultCase& fault = *running.fault;
    const RankReport& victim = running.report->ranks[static_cast<std::size_t>(report.culprit)];
    const bool stop = fault.fault == "stop";
    const std::int64_t from = stop ? report.entered.load() : std::max(report.entered.load(), victim.entered.load());
    double seconds = static_cast<double>(report.failed - from) / 1e9;
    if (stop) seconds -= std::chrono::duration<double>(call_timeout(fault.fault)).count();
    double& slowest = stop ? slowest_stop_ : slowest_death_;
    if (seconds > slowest) {
      slowest = seconds;
      slowest_ = fault.describe();
    }
    if (seconds > slack) return fmt::format("took {:.3f} s", seconds);
    return std::nullopt;
  }

  const std::vector<FaultCase> cases_;
  const std::size_t jobs_;
  StoreProcess store_;
  std::list<Running> running_;
  std::set<const FaultCase*> wrong_;
  double slowest_death_ = 0;
  double slowest_stop_ = 0;
  std::string slowest_;
};

}  // namespace
}  // namespace tutti::testing

int main(int argc, char** argv) {
  using namespace tutti::testing;
  std::string only;
  std::size_t jobs = 6;
  std::size_t every = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--only") only = argv[i + 1];
    if (option == "--jobs") jobs = std::strtoul(argv[i + 1], nullptr, 10);
    if (option == "--sample-every" && only_a_sample()) every = std::strtoul(argv[i + 1], nullptr, 10);
  }
  every = std::max<std::size_t>(every, 1);
  const std::size_t first = sample_seed(0) % every;
  std::vector<FaultCase> chosen;
  const std::vector<FaultCase> cases = all_cases();
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (i % every == first && cases[i].describe().find(only) != std::string::npos) chosen.push_back(cases[i]);
  if (chosen.empty()) {
    fmt::print("no case is chosen of {}, one of {} that have \"{}\" in their name\n", cases.size(), every, only);
    return 1;
  }
  jobs = std::max<std::size_t>(jobs, 1);
  const std::vector<FaultCase> wrong = Matrix{chosen, jobs}.run();
  if (wrong.empty()) return 0;
  // On a machine that is this busy a rank may be so late that it hears of a failure only from those who left because of
  // it. One such case, or one in two hundred, is counted and forgiven if it is right when it runs alone.
  fmt::print("once more, one at a time:\n");
  const bool few = wrong.size() * 200 <= std::max<std::size_t>(chosen.size(), 200);
  return Matrix{wrong, 1}.run().empty() && few ? 0 : 1;
}
