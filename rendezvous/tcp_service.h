#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/kv_table.h"
#include "rendezvous/tcp_protocol.h"

namespace tutti::rendezvous {

/// Limits the memory that all clients together may use.
class Budget {
 public:
  explicit Budget(std::size_t limit) : limit_(limit) {}
  /// Changes the share of one user of the budget from `held` to `wanted`. False, without a change, if that exceeds the
  /// limit.
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

/// Serves requests. Knows nothing of sockets.
///
/// Threading: one thread. Ownership: a client must leave() before it is destroyed.
class StoreService {
 public:
  class Client {
   public:
    /// The wait is over: all its keys exist. May end in leave() of this client.
    virtual void stop_waiting() = 0;

   protected:
    ~Client() = default;
  };

  enum class Outcome : std::uint8_t {
    answered,  ///< the reply, if any, was appended to the answer
    waiting,   ///< stop_waiting() will come
    refused,   ///< against the protocol or the limits: close the connection
  };

  StoreService(Budget& budget, std::size_t max_answer_bytes) : budget_(budget), max_answer_bytes_(max_answer_bytes) {}

  Outcome serve(Client& client, Request request, std::string& answer);
  /// Forgets the client, and carries out its leave actions. That may end the waits of others.
  void leave(Client& client);
  /// From now on leave actions are not carried out.
  void drop_wills() { wills_.clear(); }
  bool is_waiting(const Client& client) const { return waits_.contains(&client); }

  /// Bytes of the budget that keys and queues use.
  std::size_t stored_bytes() const { return table_.bytes(); }

 private:
  /// A wait checks its keys one after the other and is queued at the first missing one. A thousand ranks that wait for
  /// a thousand keys thus cost a million look-ups, but never a million queue entries.
  struct Wait {
    std::vector<std::string> keys;
    std::size_t next = 0;  // all before it exist
    std::size_t held = 0;  // part of the budget
    bool barrier = false;  // waits for others to come to the barrier keys[0], not for keys
  };

  /// Leave actions, and their share of the budget.
  struct Kept {
    std::string text;
    std::size_t held = 0;
  };

  Outcome serve_change(const Request& request, StoreMessage& answer);
  Outcome keep_will(Client& client, const std::string& key, std::string text);
  void carry_out(const std::string& key, Kept& kept);
  void end_wait(Client& client);
  Outcome serve_queue(const Request& request, StoreMessage& answer);
  Outcome serve_barrier(Client& client, const Request& request, StoreMessage& answer);
  Outcome serve_wait(Client& client, std::vector<std::string> keys, StoreMessage& answer);
  Outcome await(Client& client, Wait wait);
  std::set<Client*>& line_of(const Wait& wait) { return (wait.barrier ? barriers_ : lines_)[wait.keys[wait.next]]; }
  bool advance(Wait& wait) const;
  Outcome serve_multi_get(const Request& request, StoreMessage& answer);
  Outcome serve_list(StoreMessage& answer) const;
  bool make_room(std::size_t bytes);
  bool set(std::string_view key, std::string_view value);
  bool append(std::string_view key, std::string_view value);
  void announce(std::string_view key, std::size_t most = static_cast<std::size_t>(-1));
  void release(const std::vector<Client*>& done);

  Budget& budget_;
  std::size_t max_answer_bytes_;
  Table table_;
  std::size_t table_held_ = 0;
  std::map<Client*, Wait, std::less<>> waits_;
  std::map<Client*, std::map<std::string, Kept>> wills_;            // by key
  std::map<std::string, std::set<Client*>, std::less<>> lines_;     // by key that does not exist yet
  std::map<std::string, std::set<Client*>, std::less<>> barriers_;  // by key that has not been added to often enough
};

}  // namespace tutti::rendezvous
