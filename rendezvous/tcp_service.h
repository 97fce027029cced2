#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/table.h"
#include "rendezvous/tcp_protocol.h"

namespace tutti::rendezvous {

/// How much memory all clients together may make the server use.
class Budget {
 public:
  explicit Budget(std::size_t limit) : limit_(limit) {}
  /// Changes what one user of the budget holds from `held` to `wanted`; false, and no change, when that is too much.
  bool change(std::size_t& held, std::size_t wanted) {
    if (wanted > held && wanted - held > limit_ - used_) return false;
    used_ = used_ - held + wanted;
    held = wanted;
    return true;
  }
  std::size_t used() const { return used_; }

 private:
  std::size_t limit_;
  std::size_t used_ = 0;
};

/// What the server does with a request. Knows nothing of sockets.
///
/// Threading: one thread. Ownership: a client must forget() itself before it goes.
class StoreService {
 public:
  class Client {
   public:
    /// The wait is over: all its keys exist. May end in forget() of this client, and of no other.
    virtual void stop_waiting() = 0;

   protected:
    ~Client() = default;
  };

  enum class Outcome : std::uint8_t {
    answered,  ///< what to send, if anything, was appended to the answer
    waiting,   ///< stop_waiting() will come
    refused,   ///< against the protocol or the limits: close the connection
  };

  StoreService(Budget& budget, std::size_t max_answer_bytes) : budget_(budget), max_answer_bytes_(max_answer_bytes) {}

  Outcome serve(Client& client, Request request, std::string& answer);
  void forget(Client& client);
  bool is_waiting(Client& client) const { return waits_.contains(&client); }

  const Table& table() const { return table_; }

 private:
  /// A wait looks at its keys one after the other and stands in line for the first that is missing: a thousand ranks
  /// that wait for a thousand keys cost a million look-ups, but never a million places in lines.
  struct Wait {
    std::vector<std::string> keys;
    std::size_t next = 0;  // all before it came
    std::size_t held = 0;  // of the budget
  };

  Outcome serve_change(const Request& request, Message& answer);
  Outcome serve_wait(Client& client, std::vector<std::string> keys, Message& answer);
  bool advance(Wait& wait) const;
  Outcome serve_multi_get(const Request& request, Message& answer);
  bool make_room(std::size_t bytes);
  bool set(std::string_view key, std::string_view value);
  bool append(std::string_view key, std::string_view value);
  void announce(std::string_view key);

  Budget& budget_;
  std::size_t max_answer_bytes_;
  Table table_;
  std::size_t table_held_ = 0;
  std::map<Client*, Wait> waits_;
  std::map<std::string, std::set<Client*>, std::less<>> lines_;  // by key that does not exist yet
};

}  // namespace tutti::rendezvous
