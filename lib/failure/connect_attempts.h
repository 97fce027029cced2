#pragma once

#include <poll.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "transport/connector.h"

namespace tutti::detail {

/// Connections that this rank tries to make to the failure detectors of other ranks, side by side. None of them blocks.
class ConnectAttempts {
 public:
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;

  struct Outcome {
    int rank = -1;
    /// 0: connected; ECONNREFUSED: nobody listens there; EINVAL: the text is no address; else why this host cannot
    /// connect. All but the first may come again.
    int error = 0;
    Descriptor connection = {};  ///< authenticated
  };

  /// `key` must outlive this.
  ConnectAttempts(int self, const Secret& key, std::shared_ptr<TlsProxies> tls_proxies)
      : self_(self), key_(key), tls_proxies_(std::move(tls_proxies)) {}

  /// Tries to connect from time `at` on, with more patience each time, until that succeeds or forget() is called.
  void connect(int rank, const std::string& address, Clock::time_point at);
  /// Probes from time `at` on, less often each time, whether anybody still listens there, until forget() is called.
  void probe(int rank, const std::string& address, Clock::time_point at);
  bool contains(int rank) const { return attempts_.contains(rank); }
  void forget(int rank) { attempts_.erase(rank); }
  void clear() { attempts_.clear(); }

  /// When advance() must be called at the latest.
  Clock::time_point next() const;
  /// Adds what poll() shall wait for.
  void add_queries(std::vector<pollfd>& queries) const;
  /// Makes progress. `answers`: the entries that add_queries() has added, after poll(); nothing else may be called in
  /// between.
  std::vector<Outcome> advance(std::span<const pollfd> answers, Clock::time_point now);

 private:
  struct Attempt {
    std::optional<net::Address> address;  // none: the text was no address
    bool probe;
    Clock::time_point at;  // end of the attempt; if none is running, beginning of the next
    milliseconds patience;
    milliseconds pause;
    std::optional<transport::Connector> connector = {};
  };

  void add(int rank, const std::string& address, Clock::time_point at, bool probe);
  void begin(int rank, Attempt& attempt, Clock::time_point now) const;
  static void put_off(Attempt& attempt, Clock::time_point now);

  const int self_;
  const Secret& key_;
  const std::shared_ptr<TlsProxies> tls_proxies_;
  std::map<int, Attempt> attempts_;
};

}  // namespace tutti::detail
