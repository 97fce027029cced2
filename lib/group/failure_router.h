#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/failure/detector.h"
#include "lib/group/group.h"
#include "lib/observe/log.h"

namespace tutti::detail {

class Engine;

/// Connects the failure detector, which knows ids and global ranks, with this rank's groups.
///
/// Threading: attach(), detach(), spread() and ask() on the owner of the engine. The failure detector's thread calls
/// failed() and status(), and any thread fail_later(), which hand their work to the owner.
class FailureRouter final : public DetectorUser {
 public:
  FailureRouter(int rank, std::vector<std::string> names, std::shared_ptr<Engine> engine, Log log);
  ~FailureRouter();

  /// Without a detector, for ranks that are threads, a failure spreads along the links only.
  void set_detector(std::unique_ptr<FailureDetector> detector) { detector_ = std::move(detector); }
  bool is_watched() const { return detector_ != nullptr; }
  FailureDetector& detector() { return *detector_; }
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
  void suspected(const std::string& text) noexcept override { log_.warn(text); }
  void departed(const std::vector<int>& ranks) noexcept override;
  std::optional<Status> status(const Report& about) noexcept override;

 private:
  void apply(const Failure& failure);
  Failure failure_of(const Group& group, const Error& reason) const;
  Status status_now(const Report& about) const;
  std::vector<std::uint64_t> made() const;
  std::string which(const Group& group) const;

  const int rank_;
  const std::vector<std::string> names_;
  std::shared_ptr<Engine> engine_;
  const Log log_;
  std::map<std::uint64_t, Group*> groups_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Group*> by_parent_;  // by id of the parent, and own id
  std::vector<std::uint64_t> closed_;                                    // groups closed recently
  std::vector<Failure> losses_;                                          // losses of processes
  std::vector<Failure> unclaimed_;  // failures of groups that this rank has not made yet
  std::unique_ptr<FailureDetector> detector_;
};

}  // namespace tutti::detail
