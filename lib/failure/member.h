#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/failure/connections.h"
#include "lib/failure/control_message.h"
#include "lib/failure/detector_user.h"
#include "lib/failure/job_state.h"
#include "lib/failure/readiness.h"
#include "lib/failure/reunions.h"
#include "lib/failure/succession.h"
#include "lib/failure/suspicions.h"
#include "lib/failure/task_queue.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "transport/acceptor.h"

namespace tutti::detail {

class Coordinator;

/// One rank's part in failure detection. It knows which ranks are alive, keeps the connection to the coordinator,
/// exchanges messages with it, and takes its place when it goes (failover.cc).
///
/// Threading: constructor, begin(), coordinator() and name() from other threads, the rest on the detector's.
class Member {
 public:
  using Clock = std::chrono::steady_clock;

  /// Shared with the threads that use the failure detector.
  struct Shared {
    TaskQueue& tasks;
    Readiness& readiness;
    Reunions& reunions;
  };

  Member(int rank, std::shared_ptr<transport::Acceptor> acceptor, const Secret& key,
         std::shared_ptr<TlsProxies> tls_proxies, const Shared& shared);
  ~Member();

  /// Called before run().
  void begin(std::vector<Watched> ranks, const WatchSettings& settings, DetectorUser& user);
  /// Runs until leave_soon() has been called and the others have been told.
  void run();

  int coordinator() const { return succession_.coordinator(); }
  const std::string& name(int rank) const { return job_.name(rank); }

  /// Takes the connection that another rank has made.
  void accept(int rank, Descriptor socket);
  void send_to_coordinator(const ControlMessage& message);
  void suspect(const Failure& failure, const Report& calls);
  void cut();
  void tell_reunions();
  void leave_soon();

 private:
  friend class Coordinator;
  bool is_coordinator() const { return coordinator() == rank_; }

  // member.cc: waiting, silence, the end
  void wait_for_news();
  void tick(Clock::time_point now);
  Failure undecided(Failure failure, Clock::time_point now) const;
  Clock::time_point heard(int rank) const;
  void listen_for(int rank, Clock::time_point now);
  void leave();
  bool is_everybody_here() const;

  // member_messages.cc: what others say
  void admit(Connections::Accepted accepted);
  void heed(int rank, const std::vector<ControlMessage>& messages);
  void handle(int from, const ControlMessage& message);
  void handle_as_member(const ControlMessage& message);
  void note_left(int rank, JobState::Seen seen);
  void note_departed(const std::vector<int>& ranks);
  void set_ready();

  // failover.cc: losses, and the change of coordinators
  void line_ended(int rank);
  void lose(int rank, const std::string& how);
  void elect();
  void take_office();
  void hear_outcomes(std::vector<ConnectAttempts::Outcome> outcomes);
  void reached(int rank, Descriptor socket);
  void refused(int rank);
  void coordinator_is_gone();
  void absentee_is_gone(int rank);
  void catch_up();

  const int rank_;
  const Secret key_;
  const std::shared_ptr<transport::Acceptor> acceptor_;
  const Shared shared_;
  WatchSettings settings_;
  DetectorUser* user_ = nullptr;

  JobState job_;
  Connections connections_;
  Succession succession_;
  std::map<int, Clock::time_point> suspected_;  // by rank: since when it has been silent
  Suspicions suspicions_;
  std::vector<ControlMessage> unposted_;
  std::vector<std::pair<int, ControlMessage>> early_;  // with senders; for the coordinator that this rank will be
  std::unique_ptr<Coordinator> coordinator_;
  bool cut_ = false;
  bool stopping_ = false;
  bool has_left_ = false;
  Clock::time_point leave_at_{};  // if set: when it leaves at the latest
  Clock::time_point next_tick_{};
  Clock::time_point next_look_{};  // when it next checks for silent ranks
};

}  // namespace tutti::detail
