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
struct EndpointContext;

/// Ranks are processes of one user on one host. Rings live in memfds, which are passed through Unix sockets in the
/// abstract namespace. Nothing has a name in a file system, so nothing is left however a process ends.
class ShmTransport final : public SlotTransport {
 public:
  /// `token`: 16 bytes, equal on all ranks of the job; connections that do not present it are refused. Throws
  /// Error{invalid_argument} for another length, and Error{system} if there are no Unix sockets. `log` receives
  /// warnings about links that cannot be accepted; `copy_policy` says how payloads are written to slots.
  ShmTransport(int rank, std::string_view token, Reactor& reactor, const Log& log = Log{},
               const CopyPolicy& copy_policy = {});
  ~ShmTransport() override;

  const char* name() const override { return "shm"; }
  std::string address() const override { return address_.encode(); }
  void set_peers(std::vector<std::string> addresses) override;

  /// Sends a message through a real ring to the next rank of this host and receives one from the previous rank. Returns
  /// nothing if both arrived, else the reason. For set-up, before set_peers() and set_sink(); all ranks of the host
  /// call it at about the same time.
  ///
  /// `host_addresses` are those of all ranks on this host, in the same order on all of them, this rank's at `position`.
  /// A rank learns about its two neighbours only, so collect the results of all ranks before trusting any. The probe
  /// fails after ten seconds, or after half of the time until `deadline`.
  std::optional<std::string> probe(const std::vector<std::string>& host_addresses, int position,
                                   Clock::time_point deadline);

 private:
  struct Unidentified {
    Descriptor socket;
    Clock::time_point until;
  };

  void wake(int peer, Channel channel) noexcept override;
  std::unique_ptr<RingEndpoint> reach(int peer, Channel channel) override;
  bool notice() noexcept override;
  std::shared_ptr<std::byte> shared_memory(Channel channel, std::span<const int> members, std::size_t bytes) override;
  void give(int peer, Channel name, const Descriptor& descriptor) override;
  Descriptor take(int peer, Channel name) override;
  std::shared_ptr<std::byte> board_memory(Channel name, std::span<const int> members, const MemoryNeed& need) override;
  bool prepare_sleep() noexcept override;
  void awake() noexcept override;
  bool flushed(Channel channel) const noexcept override;
  void closed(Channel channel, bool aborted, bool has_unused_board) noexcept override;
  int rank() const noexcept override { return address_.rank; }

  std::string socket_of(int peer) const;
  void send_memory(int peer, Purpose purpose, Channel name, const Descriptor& memory);
  void send_unsent() noexcept;
  void start_listening();
  void stop_listening() noexcept;
  void accept_all();
  void keep(Unidentified connection);
  void read_from(int descriptor);
  bool read_hello(Descriptor& socket);
  bool is_expected(const Hello& hello) const;

  void warn_exhausted(const std::string& what, int error);
  void unreadable(int error) noexcept override;

  JobToken token_{};
  Log log_;
  bool warned_exhausted_ = false;  // and this was reported
  bool unreadable_ = false;
  ShmAddress address_;
  Descriptor listener_;
  Descriptor bell_;                 // wakes this rank; used by ranks that need no link for it
  std::vector<std::string> bells_;  // names of those of the other ranks
  std::size_t ranks_here_ = 0;      // number of addresses on this host
  enum class Listening { no, yes, paused } listening_ = Listening::no;
  Clock::time_point listens_again_{};  // after descriptors ran out
  bool probing_ = false;
  std::optional<NewRing> spare_;            // for the probe
  std::vector<Unidentified> unidentified_;  // connected, but without a hello so far; oldest first
  std::unique_ptr<EndpointContext> home_;

  struct Arrived {
    int from;
    Descriptor memory;  // empty: no descriptor was free for it
  };
  std::map<Channel, Arrived> arrived_;  // shared memory that no call has asked for yet
  std::vector<Introduction> unsent_;    // memory for ranks that had no room for another connection
  BoardPool pool_;
};

}  // namespace tutti::transport
