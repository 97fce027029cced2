#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/failure/control_message.h"
#include "lib/failure/detector_user.h"
#include "lib/failure/readiness.h"
#include "lib/failure/reunions.h"
#include "lib/failure/task_queue.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "transport/acceptor.h"

namespace tutti::detail {

class Member;

/// Makes a failure anywhere known everywhere. It has a thread and, as a rule, one connection for each rank, apart from
/// the data, so that it works while the program computes.
///
/// The lowest rank that is alive is the coordinator, to which all others are connected. A rank whose connection ends
/// without a `leave` message has died; a rank that is silent for too long counts as lost. If the coordinator goes, the
/// next rank takes its place, and finds out which ranks do not connect because they are gone, too (failover.cc). A rank
/// that finds a failure tells the coordinator, which tells all ranks; the first report counts. The coordinator also
/// asks ranks when an operation takes long (diagnosis.h), and gathers the survivors of a loss.
///
/// This is the interface for the other threads of a rank. The detector's thread runs a Member, and on one rank a
/// Coordinator. Threading: begin() and stop() once each, the rest from any thread in between.
class FailureDetector {
 public:
  using Clock = std::chrono::steady_clock;

  /// Other ranks reach it through `acceptor`, if they know `key`. With `tls_proxies` its connections are encrypted.
  /// When the failure detector ends, it closes the acceptor: a rank that has left refuses connections. Throws
  /// Error{system}.
  FailureDetector(int rank, std::shared_ptr<transport::Acceptor> acceptor, const Secret& key,
                  std::shared_ptr<TlsProxies> tls_proxies = {});
  ~FailureDetector();
  FailureDetector(const FailureDetector&) = delete;
  FailureDetector& operator=(const FailureDetector&) = delete;

  const std::string& address() const;
  /// Returns once all ranks are watched, so that no operation runs while a loss could go unnoticed. Throws
  /// Error{rendezvous} that names a rank which cannot be reached by `deadline`, or Error{peer_lost} for a rank that has
  /// already gone.
  void begin(std::vector<Watched> ranks, const WatchSettings& settings, DetectorUser& user, Clock::time_point deadline);
  /// Tells the other ranks that this one leaves. Bounded.
  void stop() noexcept;

  /// The coordinator; perhaps this rank itself.
  int coordinator() const;
  void tell(const Failure& failure);
  /// Reports a broken link, which both its ends notice, or that `calls` differ. The coordinator finds out which rank is
  /// lost or is the odd one. If it does not answer, the user is told `failure` as it is.
  void suspect(const Failure& failure, const Report& calls);
  void report(const Report& report);
  /// Cuts all connections, for fault injection.
  void cut();
  /// Waits until all of `report.members` that are not lost have called this, too. Throws Error{timeout} that names the
  /// missing ranks.
  Reunion reunite(const Report& report, Clock::time_point deadline);

 private:
  void run(DetectorUser& user) noexcept;

  const int rank_;
  const std::shared_ptr<transport::Acceptor> acceptor_;
  TaskQueue tasks_;
  Readiness readiness_;
  Reunions reunions_;
  const std::unique_ptr<Member> member_;
  /// Address space that nobody uses until there is no other. Where that is limited, the thread, which has no memory of
  /// its own, can still say that there is none.
  std::unique_ptr<void, void (*)(void*)> reserve_;
  std::thread thread_;
};

}  // namespace tutti::detail
