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
#include "transport/tcp/acceptor.h"

namespace tutti::detail {

class Member;

/// Sees to it that a failure anywhere is known everywhere: one thread and, as a rule, one connection per rank, apart
/// from the data, so that they work while the program computes.
///
/// The lowest rank that is alive is the coordinator; all others are connected to it. A connection that ends without a
/// goodbye is a death, silence is another; when the coordinator goes, the next rank takes its place, and finds out
/// which ranks do not come to it because they are gone, too (see failover.cc). A rank that finds a failure tells the
/// coordinator, the coordinator tells everybody, and the first word counts. It also asks around when an operation takes
/// long (see diagnosis.h), and gathers the survivors of a loss.
///
/// This is what the other threads of a rank see of it; its thread runs a Member, and a Coordinator on one of the ranks.
/// Threading: begin() and stop() once each; the rest from anywhere in between.
class FailureDetector {
 public:
  using Clock = std::chrono::steady_clock;

  /// Is reached through `acceptor`, which lets in who knows `key`, from now on; with `tls_proxies` all is encrypted.
  /// The end of the failure detector closes the acceptor: a rank that has left refuses connections. Throws
  /// Error{system}.
  FailureDetector(int rank, std::shared_ptr<transport::tcp::Acceptor> acceptor, const Secret& key,
                  std::shared_ptr<TlsProxies> tls_proxies = {});
  ~FailureDetector();
  FailureDetector(const FailureDetector&) = delete;
  FailureDetector& operator=(const FailureDetector&) = delete;

  const std::string& address() const;
  /// Returns once all ranks are watched, so that no operation ever runs where a loss would go unheard. Throws
  /// Error{rendezvous} that names who cannot be reached until `deadline`, or Error{peer_lost} for a rank that has gone
  /// already.
  void begin(std::vector<Watched> ranks, const WatchSettings& settings, DetectorUser& user, Clock::time_point deadline);
  /// Says goodbye to the others. Bounded.
  void stop() noexcept;

  /// The rank that would have to say what is wrong; this one's own where it is the coordinator itself.
  int coordinator() const;
  void tell(const Failure& failure);
  /// A link broke, which both its ends see: the coordinator finds out which of them is lost. Should it not say,
  /// `failure` comes back as it is.
  void suspect(const Failure& failure);
  void report(const Report& report);
  /// Cuts all connections, for fault injection.
  void cut();
  /// Meets all members of `report.members` that are not lost and call this, too. Throws Error{timeout} that names the
  /// ranks that did not.
  Reunion reunite(const Report& report, Clock::time_point deadline);

 private:
  const int rank_;
  const std::shared_ptr<transport::tcp::Acceptor> acceptor_;
  TaskQueue tasks_;
  Readiness readiness_;
  Reunions reunions_;
  const std::unique_ptr<Member> member_;
  std::thread thread_;
};

}  // namespace tutti::detail
