#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/observe/log.h"
#include "transport/hello.h"
#include "transport/memory/slot_transport.h"
#include "transport/shm/address.h"
#include "transport/shm/board_pool.h"
#include "transport/shm/memory.h"

namespace tutti::transport {

struct Introduction;
struct WireHome;

/// Ranks are processes of one user on one host. Rings live in memfds, which are handed over through Unix sockets in the
/// abstract namespace: nothing has a name in a file system, and whatever way a process ends, nothing is left.
class ShmTransport final : public SlotTransport {
 public:
  /// `token`: 16 bytes, equal on all ranks of the job; connections that do not show it are refused. Throws
  /// Error{invalid_argument} for another length and Error{system} where there are no Unix sockets.
  /// `log` hears when links cannot be taken in; `stores`: how payloads get into slots.
  ShmTransport(int rank, std::string_view token, Reactor& reactor, const Log& log = Log{},
               const CopyPolicy& copy_policy = {});
  ~ShmTransport() override;

  const char* name() const override { return "shm"; }
  std::string address() const override { return address_.encode(); }
  void set_peers(std::vector<std::string> addresses) override;

  /// Sends a message through a real ring to the next rank of this host and takes one from the previous rank: nothing if
  /// both arrived, else what was in the way. For set-up, before set_peers() and set_sink(); all ranks of the host call
  /// it.
  ///
  /// `host_addresses` are those of all ranks on this host in the same order everywhere, this rank's at `position`.
  /// Each rank learns about its own two neighbours only, so ask all before trusting any. All ranks must call at about
  /// the same time: after ten seconds, or half of the time
  /// until `deadline`, it counts as failed.
  std::optional<std::string> probe(const std::vector<std::string>& host_addresses, int position,
                                   Clock::time_point deadline);

 private:
  struct Guest {
    Descriptor socket;
    Clock::time_point until;
  };

  void wake(int peer, Channel channel) noexcept override;
  std::unique_ptr<RingEndpoint> reach(int peer, Channel channel) override;
  bool notice() noexcept override;
  std::shared_ptr<std::byte> shared_memory(Channel channel, std::span<const int> members, std::size_t bytes) override;
  std::shared_ptr<std::byte> board_memory(Channel name, std::span<const int> members, std::size_t bytes,
                                          std::size_t cleared) override;
  bool prepare_sleep() noexcept override;
  void awake() noexcept override;
  bool flushed(Channel channel) const noexcept override;
  void closed(Channel channel, bool aborted) noexcept override;
  int rank() const noexcept override { return address_.rank; }

  std::string socket_of(int peer) const;
  void offer(int peer, Purpose purpose, Channel channel, const Descriptor& memory);
  void make_offers() noexcept;
  void start_listening();
  void stop_listening() noexcept;
  void welcome();
  void keep(Guest guest);
  void hear(int descriptor);
  bool greet(Descriptor& socket);
  bool is_invited(const Hello& hello) const;

  void starved(const std::string& what, int error);
  void unreadable(int error) noexcept override;

  JobToken token_{};
  Log log_;
  bool starved_ = false;  // and said so
  bool unreadable_ = false;
  ShmAddress address_;
  Descriptor listener_;
  Descriptor bell_;                 // ends this rank's sleep; rung by ranks that need no link for it
  std::vector<std::string> bells_;  // of the others
  std::size_t ranks_here_ = 0;      // of the addresses, on this host
  enum class Listening { no, yes, paused } listening_ = Listening::no;
  Clock::time_point listens_again_{};  // again, after descriptors ran out
  bool probing_ = false;
  std::optional<NewRing> spare_;  // for the probe
  std::vector<Guest> guests_;     // connected, but have not said who they are; oldest first
  std::unique_ptr<WireHome> home_;

  struct Arrived {
    int from;
    Descriptor memory;  // none: there was no room for it
  };
  std::map<Channel, Arrived> arrived_;  // shared memory that nobody has asked for yet
  std::vector<Introduction> offers_;    // memory for ranks that had no room for another connection yet
  BoardPool pool_;
};

}  // namespace tutti::transport
