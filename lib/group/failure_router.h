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

/// Between the failure detector, which speaks of ids and global ranks, and this rank's groups.
///
/// Threading: attach(), detach(), spread() and ask() on the owner of the engine; failed() and status() on the failure
/// detector's thread, from where they reach the owner through the engine.
class FailureRouter final : public DetectorUser {
 public:
  FailureRouter(int rank, std::vector<std::string> names, std::shared_ptr<Engine> engine, Log log);
  ~FailureRouter();

  /// Without it (ranks that are threads) a failure spreads along the links only.
  void set_detector(std::unique_ptr<FailureDetector> detector) { detector_ = std::move(detector); }
  bool is_watched() const { return detector_ != nullptr; }
  FailureDetector& detector() { return *detector_; }
  void stop() noexcept;

  /// A group that failed elsewhere before it was made here fails at once.
  void attach(Group& group);
  void detach(Group& group) noexcept;
  /// `group` has failed: its sub-groups fail with it, and, if nobody else knows yet, the others are told.
  void spread(Group& group, const Error& reason, Group::Origin origin) noexcept;
  /// A link of `group` broke: who is lost will be known soon.
  void suspect(Group& group, const Error& reason) noexcept;
  /// Cuts all connections of the failure detector, for fault injection.
  void cut() noexcept;
  struct Wait {
    std::uint64_t operation = 0;  ///< these as in Report
    std::string call;
    int peer = -1;
    bool stalled = false;
    bool overdue = false;
  };
  /// An operation of `group` takes long.
  void ask(Group& group, const Wait& wait);
  /// The request to meet the other survivors of a group.
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
  std::map<std::pair<std::uint64_t, std::uint64_t>, Group*> by_parent_;  // and by their own ids
  std::vector<std::uint64_t> closed_;                                    // recently
  std::vector<Failure> losses_;                                          // of processes
  std::vector<Failure> unclaimed_;                                       // of groups that are not here yet
  std::unique_ptr<FailureDetector> detector_;
};

}  // namespace tutti::detail
