#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "cli/run/run.h"
#include "lib/base/descriptor.h"
#include "tutti/error.h"
#include "tutti/store.h"

namespace tutti::cli {

/// How an attempt at a job ended, as agreed by the runners of all nodes.
struct JobOutcome {
  int exit_code = 0;
  std::string text;       ///< empty on success
  int node = -1;          ///< node of the runner that set it
  bool restarts = false;  ///< all ranks are to be started again

  /// The outcome if more than `max_lost` ranks have failed.
  JobOutcome beyond(int max_lost) const;
};

/// How to reach the store of a job.
struct StoreAccess {
  std::chrono::milliseconds patience;  ///< how long the runners of all nodes may take to come
  /// Opens a connection. Throws Error if that fails within `patience`.
  std::function<std::shared_ptr<Store>(std::chrono::milliseconds patience)> join;
  /// True if the host answers that nobody listens there: the runner of node 0 has ended.
  std::function<bool()> is_over;
};

/// The runners of a job on several nodes agree on its end through its store. Each attempt has an outcome; if that says
/// so, all begin the next one.
///
/// Threading: used by one thread. That thread has to look after processes, so it never waits for the network, except in
/// the constructor and in leave(). Another thread, with a connection of its own, waits for the other runners and
/// notices their deaths. It makes fd() readable when there is an outcome.
class Agreement {
 public:
  /// Throws Error if another runner has this node's number, or if the nodes disagree on their number or on their ranks.
  Agreement(const Job& job, const std::string& id, StoreAccess access);
  ~Agreement();

  /// This node's ranks have succeeded; when all nodes have said so, that is the outcome.
  void all_well_here();
  /// A rank failed. If more than Job::max_lost ranks have, on all nodes together, that is the outcome.
  void lost(const JobOutcome& outcome);
  /// The first call on any node decides the outcome. If the outcome leads to another attempt but this failure allows
  /// none, this failure becomes the outcome on that attempt.
  void failed(const JobOutcome& outcome);
  /// Call it after an outcome: the next attempt begins, without an outcome.
  void begin_attempt();
  int fd() const { return ready_.get(); }
  std::optional<JobOutcome> outcome();
  /// True if `store` is that of a job that is over, in which another runner was node `node`: that runner's successor,
  /// with the next job at the same endpoint, has come before node 0 has gone.
  static bool is_past(const std::shared_ptr<Store>& store, const std::string& id, int node);
  /// Signs off, within seconds. Node 0 waits (bounded) for all others, because the store ends with it.
  void leave();

 private:
  std::shared_ptr<Store> open(std::chrono::milliseconds patience, std::chrono::milliseconds limit) const;
  void say_hello(const Job& job);
  using Word = std::function<void(Store&)>;
  /// Has `speaker_` tell the store a word about `attempt`, in place of one that it has not been able to tell yet. If
  /// the store cannot be told, `otherwise` is the outcome.
  void say(int attempt, Word word, const JobOutcome& otherwise);
  void speak(const std::stop_token& stop);
  /// Tells the store a word, over new connections if necessary, until node 0 has been silent for too long, another word
  /// comes or this runner leaves. False if it could not be told.
  bool insist(const Word& word);
  /// Adds a lost rank of this node to the job's list. False if the list is too long; the outcome then says so.
  static bool claim(Store& store, int attempt, int max_lost, const std::vector<JobOutcome>& lost);
  void watch(const std::stop_token& stop);
  /// Waits a little for the outcome on `attempt`, unless it is known.
  void await_outcome(const std::stop_token& stop, int attempt);
  /// Sends a heartbeat, and checks those of the others. False if node 0 is given up.
  bool show_life(int attempt);
  /// The store did not answer the watcher. True if node 0 may come back.
  bool may_return(const Error& why, int attempt);
  /// The end of the job because of the first node that has not come in time, or whose heartbeat is overdue, if any.
  std::optional<JobOutcome> silent_node();
  void give_up(const JobOutcome& outcome, int attempt);
  void conclude(int attempt, const JobOutcome& outcome);

  int nodes_;
  int node_;
  std::string id_;
  StoreAccess access_;
  std::chrono::milliseconds goodbye_;
  std::shared_ptr<Store> store_;    // used by this thread, and after the constructor by speaker_
  std::shared_ptr<Store> watched_;  // used by watcher_
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point heard_;  // when node 0 last answered the watcher

  struct Sign {
    std::int64_t beat = -1;  // not seen yet
    std::chrono::steady_clock::time_point since;
  };
  std::vector<Sign> signs_;
  int max_lost_;
  std::vector<JobOutcome> lost_here_;  // in this attempt
  std::atomic<int> silent_ = -1;       // the node that was given up

  Descriptor ready_;
  std::mutex mutex_;
  int attempt_ = 0;
  std::optional<JobOutcome> outcome_;  // on this attempt
  std::optional<JobOutcome> gone_;     // on every attempt from now on: node 0 is given up
  std::condition_variable_any next_attempt_;
  std::atomic<bool> lost_ = false;  // the store did not answer in time
  std::atomic<bool> leaving_ = false;
  std::function<void()> next_word_;     // under mutex_
  std::atomic<bool> replaced_ = false;  // next_word_ takes the place of the word that is being told
  std::condition_variable_any word_came_;
  std::jthread speaker_;  // tells the store this node's word
  std::jthread watcher_;
};

}  // namespace tutti::cli
