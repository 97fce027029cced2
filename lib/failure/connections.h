#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/failure/connect_attempts.h"
#include "lib/failure/control_connection.h"
#include "lib/failure/control_message.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"

namespace tutti::detail {

/// The connections of one rank's failure detector: those in use, those that other ranks have just made, and those that
/// it tries to make itself. In use there is at most one for each rank: to the coordinator, or from the coordinator to
/// all, and to ranks that were asked while the coordinator was silent.
class Connections {
 public:
  using Clock = std::chrono::steady_clock;

  /// `key` must outlive this.
  Connections(int self, const Secret& key, std::shared_ptr<TlsProxies> tls_proxies)
      : attempts_(self, key, std::move(tls_proxies)) {}

  // ---- In use
  std::map<int, ControlConnection>& all() { return connections_; }
  std::size_t size() const { return connections_.size(); }
  bool contains(int rank) const { return connections_.contains(rank); }
  /// The connection with `rank`; null: there is none.
  ControlConnection* find(int rank);
  const ControlConnection* find(int rank) const;
  /// Adds the connection with a rank that has none.
  ControlConnection& add(int rank, ControlConnection connection) {
    return connections_.emplace(rank, std::move(connection)).first->second;
  }
  /// Removes the connection with `rank`. False: there was none.
  bool remove(int rank) { return connections_.erase(rank) > 0; }
  void send_to_all(const ControlMessage& message);

  // ---- Accepted, without a message so far
  /// A rank may give up connecting before the last proof has reached it, and connect again. So the connection that
  /// counts is the one on which it sends a message.
  struct Accepted {
    int rank;
    ControlConnection connection;
    std::vector<ControlMessage> messages;
  };
  void accept(int rank, Descriptor socket);
  bool has_accepted(int rank) const;
  /// When `rank` last connected, if it did.
  std::optional<Clock::time_point> last_accepted(int rank) const;
  /// The next accepted connection with a message. It and the other accepted connections of its rank are removed.
  std::optional<Accepted> next_with_message();

  /// Attempts to make new ones.
  ConnectAttempts& attempts() { return attempts_; }
  const ConnectAttempts& attempts() const { return attempts_; }

  /// What wait() has found: messages on the connections in use, and attempts that have ended.
  struct News {
    std::vector<std::pair<int, std::vector<ControlMessage>>> messages;  // by rank; none: its connection has ended
    std::vector<ConnectAttempts::Outcome> outcomes;
  };
  /// Waits until there is news, `bell` is readable, or time `until` has come.
  News wait(int bell, Clock::time_point until);

  /// This process could not run for a while: silence before `now` does not count against other ranks.
  void forgive(Clock::time_point now);
  void cut();
  /// Sends the last message to all ranks, and closes all connections. Bounded by `deadline`. It reads what the ranks
  /// have sent, since to close a connection with unread data resets it: if the last message is lost on its way then, it
  /// is not sent again, and this rank counts as crashed.
  void close(const ControlMessage& last, Clock::time_point deadline);

 private:
  void hear_ends(Clock::time_point deadline);

  std::map<int, ControlConnection> connections_;
  std::vector<std::pair<int, ControlConnection>> accepted_;
  std::map<int, Clock::time_point> accepted_at_;
  ConnectAttempts attempts_;
};

}  // namespace tutti::detail
