// The life of a job on one node: starts all ranks, forwards their output, and ends the others when the first one fails.
//
// One thread polls for everything that can happen:
//
//   signals (a child has ended, a request to stop)   output of the ranks   room on stdout / stderr
//   keyboard for rank 0   the outcome of the other nodes   the next deadline
//
//   running --first failure, signal, timeout, outcome--> ending (SIGTERM sent) --grace over--> killed (SIGKILL sent)

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <optional>
#include <utility>

#include "cli/base/exit_codes.h"
#include "cli/base/output.h"
#include "cli/run/input.h"
#include "cli/run/post_mortem.h"
#include "cli/run/ranks.h"
#include "cli/run/run.h"
#include "cli/run/signals.h"
#include "cli/run/store.h"
#include "cli/run/streams.h"
#include "cli/run/trace.h"
#include "lib/base/host.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

/// The connections of a killed rank close before its death is reported, so a rank that fails as a consequence may be
/// seen first. For this time the runner looks for the killed one.
constexpr std::chrono::milliseconds second_look{100};

/// Probably not a consequence of another rank's end. An abort may be, since uncaught errors end in one.
bool is_sudden(const Rank& rank) { return rank.was_killed() && rank.exit_code() != 128 + SIGABRT; }

/// While this object lives, processes that lose their parent become our children.
class Subreaper {
 public:
  Subreaper() {
    ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  ~Subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, before_); }

 private:
  int before_ = 0;
};

class Runner {
 public:
  explicit Runner(const Job& job)
      : job_(job), trace_(job.trace), guardian_(std::in_place), store_(job), keyboard_(job.first_rank() == 0) {}

  int run() {
    if (job_.timeout.count() > 0) timeout_at_ = Clock::now() + job_.timeout;
    do {
      start_ranks();
      while (!over()) turn();
    } while (begin_again());
    guardian_.reset();
    end_orphans(Clock::now() + job_.kill_grace, inherited_);
    signals_.give_back();  // nothing is left to be done, so an interrupt ends the wait for the other nodes
    store_.leave();
    return exit_code_ == 0 && (lost_ || streams_.lost_errors()) ? exit_output : exit_code_;
  }

 private:
  void start_ranks();
  void cannot_start(int exit_code, const std::string& why);
  bool over() const;
  bool begin_again();
  void turn();
  void on_signals();
  void stop();
  void on_outcome();
  void on_time();
  void notice_ends();
  JobOutcome failure_of(const Rank& rank);
  void settle();
  void end_all(int signal, const JobOutcome& outcome);
  void kill_all();
  std::optional<Clock::time_point> next_deadline();
  void notice_losses();
  void collect_trace();
  void say(const std::string& text) { streams_.say(text); }

  const Job& job_;
  const JobTrace trace_;
  const std::vector<pid_t> inherited_ = children();  // `sleep 99 & exec tutti run ...`: not ours to end
  Signals signals_;                                  // first, since no thread may start before it
  Subreaper subreaper_;
  std::optional<Guardian> guardian_;
  JobStore store_;
  Keyboard keyboard_;
  Streams streams_;
  std::vector<Rank> ranks_;

  const Rank* culprit_ = nullptr;  // the first that failed, or was killed soon after
  bool ending_ = false;
  bool final_ = false;  // no other attempt follows this ending
  bool killed_ = false;
  bool told_to_stop_ = false;
  bool timed_out_ = false;
  bool said_done_ = false;
  bool lost_ = false;      // something for a log or the trace could not be written
  bool told_log_ = false;  // a failure of a log was reported
  bool traced_ = false;    // the trace of these ranks has been written
  std::optional<JobOutcome> outcome_;
  int restarts_ = 0;
  int exit_code_ = 0;
  std::optional<Clock::time_point> report_at_;  // when to report the culprit, which may not be the first
  std::optional<Clock::time_point> timeout_at_;
  std::optional<Clock::time_point> kill_at_;   // when to send SIGKILL
  std::optional<Clock::time_point> clear_at_;  // when to end what still holds the output of ranks that have ended
};

void Runner::start_ranks() {
  try {
    if (!job_.log_dir.empty()) make_folder("--log-dir", job_.log_dir);
    Start start{.path = find_program(job_.command.front()),
                .arguments = job_.command,
                .environment = {},
                .input = -1,
                .inherited = {},
                .cores = {},
                .signals = &inherited_signals()};
    const Descriptor nothing{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    for (int local = 0; local < job_.ranks_here; ++local) {
      start.input = job_.first_rank() + local == 0 ? keyboard_.end_for_rank() : nothing.get();
      ranks_.push_back(start_rank(job_, store_.rdzv(), trace_, local, start, streams_.out(), streams_.err()));
      guardian_->watch(ranks_.back().pid());
    }
  } catch (const StartError& error) {
    cannot_start(error.exit_code, error.message);
  } catch (const OutputError& error) {
    cannot_start(exit_output, error.what());
  } catch (const std::exception& error) {
    cannot_start(exit_cannot_execute, error.what());
  }
  keyboard_.started();
}

void Runner::cannot_start(int exit_code, const std::string& why) {
  say(why);
  end_all(SIGTERM, {exit_code, why, job_.node});
}

bool Runner::over() const {
  const bool all_gone = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.gone(); });
  const bool all_written = streams_.empty() || ((told_to_stop_ || timed_out_) && killed_);
  return all_gone && all_written && (outcome_ || final_);
}

/// Begins another attempt, if any is left, after one that failed.
bool Runner::begin_again() {
  if (final_ || !outcome_->restarts) return false;
  std::vector<pid_t> others = inherited_;
  others.push_back(guardian_->pid());
  end_orphans(Clock::now() + job_.kill_grace, others);
  ++restarts_;
  say(fmt::format("starting all ranks again after {}: restart {} of {}, {} left", outcome_->text, restarts_,
                  job_.max_restarts, job_.max_restarts - restarts_));
  store_.begin_attempt();
  ranks_.clear();
  culprit_ = nullptr;
  ending_ = killed_ = said_done_ = traced_ = false;
  outcome_.reset();
  exit_code_ = 0;
  kill_at_.reset();
  clear_at_.reset();
  keyboard_ = Keyboard{job_.first_rank() == 0};
  return true;
}

void Runner::turn() {
  const auto [out, err] = streams_.waits();
  std::vector<pollfd> waits{
      {signals_.fd(), POLLIN, 0}, {outcome_ ? -1 : store_.outcome_fd(), POLLIN, 0}, out, err, keyboard_.wait()};
  const std::size_t first_output = waits.size();
  for (Rank& rank : ranks_) {
    for (RankOutput& output : rank.outputs()) {
      waits.push_back({output.outlet().full() ? -1 : output.fd(), POLLIN, 0});  // a paused pipe must not wake us
    }
  }
  int limit = -1;
  if (const auto deadline = next_deadline()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
    limit = static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
  }
  ::poll(waits.data(), waits.size(), limit);

  for (std::size_t i = first_output; i < waits.size(); ++i) {
    if (waits[i].revents != 0) ranks_[(i - first_output) / 2].outputs()[(i - first_output) % 2].read_some();
  }
  if (waits[4].revents != 0 && keyboard_.forward() && ::isatty(STDOUT_FILENO) != 0) streams_.out().line_was_ended();
  streams_.flush(waits[2], waits[3]);
  if (waits[0].revents != 0) on_signals();
  if (waits[1].revents != 0) on_outcome();
  notice_losses();
  notice_ends();
  settle();
  on_time();
}

/// If the ranks' output cannot be written they are ended; if only a log cannot, they go on.
void Runner::notice_losses() {
  const int error = final_ ? 0 : streams_.out_error();
  if (error == EPIPE) {  // as in other programs whose reader has closed the pipe
    end_all(SIGTERM, {128 + SIGPIPE, "nobody reads the output of its ranks", job_.node});
  } else if (error != 0) {
    const std::string text = OutputError{"", "standard output", error}.what();
    say(text + "; ending all ranks");
    end_all(SIGTERM, {exit_output, text, job_.node});
  }
  for (const Rank& rank : ranks_) {
    const Transcript& transcript = rank.transcript();
    if (transcript.log_error == 0 || std::exchange(told_log_, true)) continue;
    lost_ = true;
    const OutputError loss{"", transcript.log_path, transcript.log_error};
    say(fmt::format("{}; the log ends there, and the job goes on", loss.what()));
  }
}

void Runner::on_signals() {
  while (const std::optional<int> number = signals_.next()) {
    if (*number == SIGCHLD) continue;  // notice_ends() handles it
    if (*number == SIGTSTP) {
      stop();
    } else if (*number == SIGCONT) {
      keyboard_.look_again();
    } else if (*number == SIGUSR1 || *number == SIGUSR2) {
      for (const Rank& rank : ranks_) rank.signal(*number);
    } else if (told_to_stop_) {
      kill_all();  // second request
    } else {
      told_to_stop_ = true;
      end_all(*number, {128 + *number, fmt::format("tutti run received {}", signal_name(*number)), job_.node});
    }
  }
}

/// Ctrl-Z stops the whole job. The ranks are not in the terminal's group, so they are stopped and continued from here.
void Runner::stop() {
  const Clock::time_point begin = Clock::now();
  for (const Rank& rank : ranks_) rank.signal(SIGSTOP);
  ::raise(SIGSTOP);
  for (const Rank& rank : ranks_) rank.signal(SIGCONT);
  if (timeout_at_) *timeout_at_ += Clock::now() - begin;
}

void Runner::on_outcome() {
  outcome_ = store_.outcome();
  if (!outcome_ || outcome_->exit_code == 0) return;
  if (ending_) {
    final_ = final_ || !outcome_->restarts;  // another node has decided otherwise
    return;
  }
  const std::string where = job_.nodes > 1 ? fmt::format("on node {} ", outcome_->node) : "";
  say(fmt::format("ending the ranks on {}: {}{}", host_name(), where, outcome_->text));
  end_all(SIGTERM, *outcome_);
}

void Runner::notice_ends() {
  for (Rank& rank : ranks_) {
    if (!rank.notice_end()) continue;
    rank.drain();
    if (!clear_at_) clear_at_ = Clock::now() + job_.kill_grace;
    if (rank.exit_code() == 0 || ending_) continue;
    if (job_.max_lost > 0) {
      store_.lost(failure_of(rank));
      continue;
    }
    if (culprit_ == nullptr) report_at_ = Clock::now() + second_look;
    if (culprit_ == nullptr || (is_sudden(rank) && !is_sudden(*culprit_))) culprit_ = &rank;
  }
  if (culprit_ != nullptr && !ending_ && (is_sudden(*culprit_) || Clock::now() >= *report_at_)) {
    report_at_.reset();
    end_all(SIGTERM, failure_of(is_sudden(*culprit_) ? *culprit_ : first_to_fail(*culprit_, ranks_)));
  }
  reap_orphans(ranks_);
}

/// Says how the rank ended.
JobOutcome Runner::failure_of(const Rank& rank) {
  const std::string text =
      fmt::format("rank {} (host {}, pid {}) {}", rank.number(), host_name(), rank.pid(), rank.how_it_ended());
  const std::string& last_line = rank.transcript().last_line;
  say(text + (last_line.empty() ? "; it wrote nothing" : "; its last line: " + last_line));
  if (const std::string more = last_moments(rank, ranks_); !more.empty()) say(more);
  return {rank.exit_code(), text, job_.node, restarts_ < job_.max_restarts};
}

/// A rank is over when its process has ended and no process holds its output open, or the grace period for that has
/// passed.
void Runner::settle() {
  bool waiting = false;
  const bool time_is_up = killed_ || (clear_at_ && Clock::now() >= *clear_at_);
  for (Rank& rank : ranks_) {
    if (rank.gone() || rank.running()) continue;
    if (!rank.outputs_open() || time_is_up) {
      rank.drain();
      guardian_->forget(rank.pid());
      rank.clear();
    } else {
      waiting = true;
    }
  }
  if (!waiting) clear_at_.reset();
  const bool all_gone = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.gone(); });
  if (all_gone && !std::exchange(traced_, true)) collect_trace();
  if (all_gone && !ending_ && !said_done_ && culprit_ == nullptr) {
    said_done_ = true;
    store_.all_well_here();
  }
}

void Runner::collect_trace() {
  const auto [text, lost] = trace_.collect(ranks_);
  if (!text.empty()) say(text);
  lost_ = lost_ || lost;
}

/// Tells the other nodes, unless `outcome` came from them or an earlier one has precedence.
void Runner::end_all(int signal, const JobOutcome& outcome) {
  if (!ending_) kill_at_ = Clock::now() + job_.kill_grace;
  if (!ending_ || (!final_ && !outcome.restarts)) {
    exit_code_ = outcome.exit_code;
    if (outcome.node == job_.node) store_.failed(outcome);
  }
  ending_ = true;
  final_ = final_ || !outcome.restarts;
  report_at_.reset();
  // All stop before the first one ends. Otherwise ranks that run on for a moment take its end for a failure, and say so
  // in their output and their black boxes.
  for (const Rank& rank : ranks_) rank.signal(SIGSTOP);
  for (const Rank& rank : ranks_) {
    rank.signal(signal);
    rank.signal(SIGCONT);  // a stopped process does not handle signals
  }
}

void Runner::kill_all() {
  killed_ = true;
  kill_at_.reset();
  for (const Rank& rank : ranks_) rank.signal(SIGKILL);
}

void Runner::on_time() {
  const Clock::time_point now = Clock::now();
  if (timeout_at_ && now >= *timeout_at_) {
    timeout_at_.reset();
    timed_out_ = true;
    if (!final_) {
      const std::string text =
          fmt::format("the job did not end within {:g} s; still running: {}",
                      static_cast<double>(job_.timeout.count()) / 1000, still_running(ranks_, outcome_.has_value()));
      say(text + "; ending all ranks (--timeout)");
      if (const std::string more = who_waits(ranks_); !more.empty()) say(more);
      end_all(SIGTERM, {exit_job_timeout, text, job_.node});
    }
  }
  if (kill_at_ && now >= *kill_at_) kill_all();
  for (Rank& rank : ranks_) {
    for (RankOutput& output : rank.outputs()) output.show_if_due(now);
  }
}

std::optional<Clock::time_point> Runner::next_deadline() {
  std::optional<Clock::time_point> next;
  const auto consider = [&next](const std::optional<Clock::time_point>& deadline) {
    if (deadline && (!next || *deadline < *next)) next = deadline;
  };
  for (const auto& deadline : {report_at_, timeout_at_, kill_at_, clear_at_}) consider(deadline);
  for (Rank& rank : ranks_) {
    for (RankOutput& output : rank.outputs()) consider(output.show_at());
  }
  return next;
}

}  // namespace

int run_job(const Job& job) {
  check_variables(job);
  require_room_for("run", job.ranks_here, needs_of(job));
  JobStore::await(job);
  Runner runner{job};
  return runner.run();
}

}  // namespace tutti::cli
