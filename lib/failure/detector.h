#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/failure/connect_attempts.h"
#include "lib/failure/control_connection.h"
#include "lib/failure/control_message.h"
#include "lib/failure/detector_user.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "transport/tcp/acceptor.h"

namespace tutti::detail {

class Coordinator;

struct WatchSettings {
  std::chrono::milliseconds beat{1000};    ///< between signs of life
  std::chrono::milliseconds lost{10'000};  ///< silence after which a rank is given up
};

/// How others reach a rank's watch, and what it is called in messages.
struct Watched {
  std::string address;
  std::string name;  ///< "rank 2 (host a, pid 123)"
};

/// Those who go on without the lost.
struct Reunion {
  std::uint64_t group = 0;   ///< fresh, equal on all
  std::vector<int> members;  ///< global ranks, in the order of the old group
};

/// Sees to it that a failure anywhere is known everywhere: one thread and, as a rule, one connection per rank, apart
/// from the data, so that they work while the program computes.
///
/// The lowest rank that is alive is the coordinator; all others are connected to it. A connection that ends without a
/// goodbye is a death, silence is another; when the coordinator goes, the next rank takes its place, and finds out
/// which ranks do not come to it because they are gone, too (see failover.cc). Whoever finds a failure tells the
/// coordinator, the coordinator tells everybody, and the first word counts. It also asks around when somebody's
/// operation takes long (see diagnosis.h), and gathers the survivors of a loss.
///
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

  const std::string& address() const { return acceptor_->address(); }
  /// Returns once all ranks are watched, so that no operation ever runs where a loss would go unheard. Throws
  /// Error{rendezvous} that names who cannot be reached until `deadline`, or Error{peer_lost} for who has gone already.
  void begin(std::vector<Watched> ranks, const WatchSettings& settings, DetectorUser& user, Clock::time_point deadline);
  /// Says goodbye to the others. Bounded.
  void stop() noexcept;

  /// The rank that would have to say what is wrong; this one's own where it is the coordinator itself.
  int coordinator() const { return coordinator_rank_.load(); }
  void tell(const Verdict& verdict);
  /// A link broke, which both its ends see: the coordinator finds out which of them is lost. Should it not say,
  /// `verdict` comes back as it is.
  void accuse(const Verdict& verdict);
  void report(const Report& report);
  /// Cuts all connections, for fault injection.
  void cut();
  /// Meets all members of `report.members` that are not lost and call this, too. Throws Error{timeout} that names who
  /// did not.
  Reunion reunite(const Report& report, Clock::time_point deadline);

 private:
  friend class Coordinator;
  enum class State : std::uint8_t { alive, lost, left };
  struct Awaited {  // a reunion of this rank
    Report report;
    std::optional<Reunion> outcome;
    std::vector<int> missing;
    int told = -1;  // the coordinator that knows
  };

  int size() const { return static_cast<int>(ranks_.size()); }
  State& state(int rank) { return states_[static_cast<std::size_t>(rank)]; }
  const std::string& name(int rank) const { return ranks_[static_cast<std::size_t>(rank)].name; }
  bool is_coordinator() const { return coordinator_rank_ == rank_; }

  void post(std::function<void()> task);
  void run() noexcept;
  void wait_for_news();
  void tick(Clock::time_point now);
  Verdict without_verdict(Verdict verdict, Clock::time_point now);
  void welcome(int rank, Descriptor socket);
  void hear_callers();
  void admit(int rank, ControlConnection connection, const std::vector<ControlMessage>& messages);
  void read(int rank);
  void heed(int rank, const std::vector<ControlMessage>& messages);
  void handle(int from, const ControlMessage& message);
  void handle_as_member(const ControlMessage& message);
  void line_ended(int rank);
  void lose(int rank, const std::string& how);
  Clock::time_point heard(int rank) const;
  void listen_for(int rank, Clock::time_point now);
  void elect();
  void take_office();
  void seek(Clock::time_point now);
  int reach(Clock::time_point now) const;
  void hear_calls(std::vector<Calls::Outcome> outcomes);
  void reached(int rank, Descriptor socket);
  void refused(int rank);
  void coordinator_is_gone();
  void absentee_is_gone(int rank);
  /// False: it was known.
  bool learn(const Verdict& verdict);
  void send_to_coordinator(const ControlMessage& message);
  void set_ready();
  void give_up_before_ready(const Verdict& verdict);
  void catch_up();
  void tell_reunions();
  std::vector<std::function<void()>> take_tasks();
  void note_left(int rank);
  void note_departed(const std::vector<int>& ranks);
  void leave();
  void shut() noexcept;
  bool is_everybody_here() const;
  void say_goodbye();

  const int rank_;
  const Secret key_;
  Descriptor bell_;
  WatchSettings settings_;
  DetectorUser* user_ = nullptr;

  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
  bool stopping_ = false;
  bool ready_ = false;               // everybody is watched
  std::optional<Verdict> hopeless_;  // somebody went before that
  std::condition_variable news_;     // of these, and of reunions_

  // The thread's.
  std::vector<Watched> ranks_;
  std::vector<State> states_;
  std::map<int, Clock::time_point> left_since_;
  std::set<int> unseen_;  // of these: nobody saw whether their process left or died
  std::map<int, ControlConnection>
      connections_;  // to the coordinator, or as it to everybody; and to others that were asked while it was silent
  Calls calls_;
  // Accepted, but nothing was said yet. Who dialled may have given up before the last proof reached it, and connects
  // again: the connection on which it speaks is the one that counts.
  std::vector<std::pair<int, ControlConnection>> callers_;
  std::map<int, Clock::time_point> called_;     // when each last dialled
  std::map<int, Clock::time_point> suspected_;  // since when they have been silent
  struct Accusation {
    Verdict verdict;
    Clock::time_point until;
  };
  std::vector<Accusation> accusations_;  // of this rank
  std::vector<Verdict> verdicts_;  // of late; a new coordinator tells them to who has not heard them from the old one
  std::vector<ControlMessage> unposted_;
  std::vector<std::pair<int, ControlMessage>> early_;  // to the coordinator that this rank will be, and from whom
  std::atomic<int> coordinator_rank_ = 0;
  std::unique_ptr<Coordinator> coordinator_;
  bool predecessor_died_ = false;
  bool cut_ = false;
  Clock::time_point led_until_{};   // the last sign of life of a coordinator: so far everybody was listened for
  Clock::time_point connect_at_{};  // to the coordinator, not before
  Clock::time_point leave_at_{};    // if it is set, at the latest
  Clock::time_point next_tick_{};
  Clock::time_point next_look_{};                               // at the silence of others
  std::map<std::uint64_t, std::shared_ptr<Awaited>> reunions_;  // by old group; guarded by mutex_
  std::thread thread_;
  bool has_left_ = false;
  const std::shared_ptr<transport::tcp::Acceptor> acceptor_;
};

}  // namespace tutti::detail
