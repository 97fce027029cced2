#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lib/failure/detector.h"
#include "lib/failure/task_thread.h"
#include "lib/group/group.h"
#include "lib/observe/log.h"

namespace tutti::detail {

class Engine;

/// Connects the failure detector, which knows ids and global ranks, with this rank's groups.
///
/// Threading: attach(), detach(), spread() and ask() on the owner of the engine, fail_later() on any thread. What the
/// failure detector's thread calls is done on another one, the router's, since it may take long: if nobody owns the
/// engine, the router's thread does, and runs functions that the program has given to then(), among others.
class FailureRouter final : public DetectorUser {
 public:
  FailureRouter(int rank, std::vector<std::string> names, std::shared_ptr<Engine> engine, Log log);
  ~FailureRouter();

  /// Before the detector begins, since this router may answer it as long as both exist. Without a detector, for ranks
  /// that are threads, a failure spreads along the links only.
  void set_detector(std::unique_ptr<FailureDetector> detector) { detector_ = std::move(detector); }
  bool is_watched() const { return detector_ != nullptr; }
  FailureDetector& detector() { return *detector_; }
  /// Stops the detector, and does what that has asked for. The owner of the engine may still have to do a part of it.
  void stop() noexcept;

  /// Adds a group, which fails at once if it failed elsewhere before it was made here.
  void attach(Group& group);
  void detach(Group& group) noexcept;
  /// Passes on the failure of `group`: to its sub-groups, and if it was found here to the other ranks.
  void spread(Group& group, const Error& reason, Group::Origin origin) noexcept;
  /// For a failure that this rank has found, if the owner of the engine is too busy to hear of it.
  void fail_later(const Failure& failure) noexcept;
  /// Reports a broken link of `group` to the coordinator, which finds out which rank is lost.
  void suspect(Group& group, const Error& reason) noexcept;
  /// Cuts all connections of the failure detector, for fault injection.
  void cut() noexcept;
  struct Wait {
    std::uint64_t operation = 0;  ///< as in Report, like those below
    std::string call;
    int peer = -1;
    bool stalled = false;
    bool overdue = false;
  };
  /// Reports an operation of `group` that takes long.
  void ask(Group& group, const Wait& wait);
  /// The report with which this rank asks for a reunion of the survivors of a group.
  Report reunion_of(const Group& group) const;

  void failed(const Failure& failure) noexcept override;
  void suspected(const std::string& text) noexcept override;
  void departed(const std::vector<int>& ranks) noexcept override;
  void status(const Report& about, Reply reply) noexcept override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Question {
    Report about;
    Reply reply;
    Clock::time_point asked_at;
  };

  static void leave_to(std::unique_ptr<TaskThread>& thread, std::function<void()> task) noexcept;
  void apply(const Failure& failure);
  void answer_questions();
  Failure failure_of(const Group& group, const Error& reason) const;
  Status status_now(const Report& about) const;
  Report report_of(const Group& group) const;
  bool may_list();
  std::string which(const Group& group) const;

  const int rank_;
  const std::vector<std::string> names_;
  std::shared_ptr<Engine> engine_;
  const Log log_;
  std::map<std::uint64_t, Group*> groups_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Group*> by_parent_;  // by id of the parent, and own id
  std::vector<std::uint64_t> closed_;                                    // groups closed recently
  bool has_forgotten_ = false;                                           // groups closed before
  std::vector<Failure> losses_;                                          // losses of processes
  std::vector<Failure> unclaimed_;  // failures of groups that this rank has not made yet
  Clock::time_point listing_since_{};
  std::size_t listed_ = 0;  // groups in the reports since then
  std::mutex questions_mutex_;
  std::deque<Question> questions_;  // of the coordinator, that wait for the owner of the engine
  std::unique_ptr<FailureDetector> detector_;
  // Null: there was no task yet, or the detector has stopped.
  std::unique_ptr<TaskThread> thread_;
  std::unique_ptr<TaskThread> warner_;  // writes warnings, which may take long where nobody reads them
};

}  // namespace tutti::detail
