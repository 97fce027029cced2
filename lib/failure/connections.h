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

/// The connections of one rank's failure detector: those in use, those that others have just made, and those that it
/// tries to make itself. Of the first kind there is one for a rank at most: to the coordinator, or as it to everybody,
/// and to others that were asked while the coordinator was silent.
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
  /// Null: there is none.
  ControlConnection* find(int rank);
  const ControlConnection* find(int rank) const;
  /// There is none yet.
  ControlConnection& add(int rank, ControlConnection connection) {
    return connections_.emplace(rank, std::move(connection)).first->second;
  }
  /// False: there was none.
  bool remove(int rank) { return connections_.erase(rank) > 0; }
  void send_to_all(const ControlMessage& message);

  // ---- Accepted, but nothing was said yet
  // A rank that dialled may have given up before the last proof reached it, and connects again: the connection on which
  // it speaks is the one that counts.
  struct Caller {
    int rank;
    ControlConnection connection;
    std::vector<ControlMessage> messages;
  };
  void welcome(int rank, Descriptor socket);
  bool has_caller(int rank) const;
  /// When `rank` last dialled, if it did.
  std::optional<Clock::time_point> last_call(int rank) const;
  /// The next one on which its rank has spoken. It and others of that rank are no longer here.
  std::optional<Caller> next_speaker();

  /// To make new ones.
  Calls& attempts() { return attempts_; }
  const Calls& attempts() const { return attempts_; }

  /// Something has come on the connections in use, or an attempt has ended.
  struct News {
    std::vector<std::pair<int, std::vector<ControlMessage>>> messages;  // by rank; none: the connection has ended
    std::vector<Calls::Outcome> outcomes;
  };
  /// Until there are news, `bell` can be read, or `until`.
  News wait(int bell, Clock::time_point until);

  /// This process itself could not listen for a while: silence until `now` does not count.
  void forgive(Clock::time_point now);
  void cut();
  /// Sends all ranks the last message, and ends. Bounded.
  void close(const ControlMessage& goodbye, Clock::time_point deadline);

 private:
  std::map<int, ControlConnection> connections_;
  std::vector<std::pair<int, ControlConnection>> callers_;
  std::map<int, Clock::time_point> called_;
  Calls attempts_;
};

}  // namespace tutti::detail
