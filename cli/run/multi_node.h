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

/// How an attempt at a job ended, as the runners of all nodes agree on it.
struct Verdict {
  int exit_code = 0;
  std::string text;       ///< empty when all is well
  int node = -1;          ///< whose runner said so
  bool restarts = false;  ///< all ranks are to be started again

  /// The failure of a rank that was one too many.
  Verdict beyond(int max_lost) const;
};

/// The way to the store of a job.
struct StoreAccess {
  /// Opens a connection. Throws Error when there is none within `patience`.
  std::function<std::shared_ptr<Store>(std::chrono::milliseconds patience)> join;
  /// True when its host answers that nobody listens there: the runner of node 0 has ended.
  std::function<bool()> is_over;
};

/// The runners of a job on several nodes agree through its store on how it ends. Each attempt has a verdict; when that
/// says so, all begin the next one.
///
/// Threading: used by one thread, which has processes to look after and is therefore never kept waiting for the
/// network, except by the constructor and leave(). Waiting for the others, and noticing that one has died, is the
/// business of a thread with a connection of its own; it makes fd() readable when there is a verdict.
class Agreement {
 public:
  /// Throws Error when another runner is this node already, or the nodes disagree on how many they are or how many
  /// ranks each has.
  Agreement(const Job& job, const std::string& id, StoreAccess access);
  ~Agreement();

  /// This node's ranks have ended well; when all nodes said so, that is the verdict.
  void all_well_here();
  /// A rank failed. When more than Job::max_lost have, on all nodes together, that is the verdict.
  void lost(const Verdict& verdict);
  /// The first to say so is the verdict. Where that is to be followed by another attempt, but this one is not, this one
  /// is the verdict on that attempt.
  void failed(const Verdict& verdict);
  /// Once the verdict is there: the next attempt begins, which has none yet.
  void begin_attempt();
  int fd() const { return ready_.get(); }
  std::optional<Verdict> verdict();
  /// Says goodbye, within seconds. Node 0 waits (bounded) until everybody has, because the store ends with it.
  void leave();

 private:
  std::shared_ptr<Store> open(std::chrono::milliseconds answer_limit) const;
  void say_hello(const Job& job);
  void start_word(const std::function<void()>& word);
  /// Tells the store something, over new connections while node 0 has not been silent for too long and nobody leaves.
  /// False when it could not be told.
  bool insist(const std::function<void(Store&)>& tell);
  /// Enters what was lost here into the list of the job. False when that is too long by now; the verdict says so.
  static bool claim(Store& store, int attempt, int max_lost, const std::vector<Verdict>& lost);
  void watch(const std::stop_token& stop);
  /// Waits a little for the verdict on `attempt`, unless there is one.
  void await_verdict(const std::stop_token& stop, int attempt);
  /// Shows that this runner lives, and looks for those that do not. False when node 0 is given up.
  bool show_life(int attempt);
  /// The store did not answer the watcher. True while node 0 may come back.
  bool may_return(const Error& why, int attempt);
  /// The first node that has shown no sign of life for too long, or -1.
  int silent_node();
  void give_up(const Verdict& verdict, int attempt);
  void conclude(int attempt, const Verdict& verdict);

  int nodes_;
  int node_;
  std::string id_;
  StoreAccess access_;
  std::chrono::milliseconds goodbye_;
  std::shared_ptr<Store> store_;                 // of this thread, and of word_ while that runs
  std::shared_ptr<Store> watched_;               // of watcher_
  std::chrono::steady_clock::time_point heard_;  // when node 0 last answered the watcher

  struct Sign {
    std::int64_t beat = -1;  // not seen yet
    std::chrono::steady_clock::time_point since;
  };
  std::vector<Sign> signs_;
  int max_lost_;
  std::vector<Verdict> lost_here_;  // in this attempt
  std::atomic<int> silent_ = -1;    // the node that was given up

  Descriptor ready_;
  std::mutex mutex_;
  int attempt_ = 0;
  std::optional<Verdict> verdict_;  // on this attempt
  std::optional<Verdict> gone_;     // on every one from now on: node 0 is given up
  std::condition_variable_any next_attempt_;
  std::atomic<bool> lost_ = false;  // the store did not answer in time
  std::atomic<bool> leaving_ = false;
  std::jthread word_;  // tells the store what this node has to say
  std::jthread watcher_;
};

}  // namespace tutti::cli
