#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/persistent.h"
#include "lib/api/stream_flight.h"
#include "lib/collective/collectives.h"
#include "lib/gpu/device_windows.h"
#include "transport/cuda_ipc/stream_links.h"
#include "tutti/communicator.h"

namespace tutti::detail {

class CapturedCall;

/// What the engine knows of the calls of a communicator that graphs run. Each time that one begins an operation starts,
/// which stands for it as for other calls on streams. These operations have an order of their own, since only streams
/// know when a graph is launched: they belong to a communicator apart, of the same ranks.
class Replays : public std::enable_shared_from_this<Replays> {
 public:
  /// `apart`: is used for nothing else. `group`: fails with it, and exists until close().
  Replays(Communicator apart, Group& group, std::shared_ptr<StreamFlight> flight);

  // ---- The program's threads
  void add(const std::shared_ptr<const CapturedCall>& call);
  /// Whether a graph that exists has a call with buffers in this window.
  bool use(std::uint32_t window) const;
  /// The group is about to say bye. Waits for calls that the stream of this rank has passed, and other ranks' have not.
  void close() noexcept;

  // ---- Any thread
  StreamFlight& flight() const { return *flight_; }
  bool has_ended() const noexcept { return has_ended_.load(); }
  /// A stream has got to the beginning of a call, or to its end.
  void note(std::shared_ptr<CapturedCall> call, bool is_end) noexcept;

 private:
  struct Running {
    Operation* operation;
    bool is_passed;
  };
  struct Event {
    std::shared_ptr<CapturedCall> call;
    bool is_end;
  };
  // Owner of the engine.
  void catch_up();
  void begin(CapturedCall& call);
  void end(CapturedCall& call);
  void over(Operation& operation, const Error* error);

  std::optional<Communicator> apart_;
  Group& group_;
  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<StreamFlight> flight_;
  std::atomic<bool> has_ended_{false};
  std::vector<Running> running_;                        // owner of the engine; holds a reference of each
  mutable std::mutex mutex_;                            // of what follows
  std::deque<Event> events_;                            // in their order, of which the engine has not heard
  std::vector<std::weak_ptr<const CapturedCall>> all_;  // some are gone
  std::size_t looks_at_ = 16;                           // the size at which it looks for those
};

/// A collective that was captured into a graph, and all that its commands use. The graph owns it.
class CapturedCall : public std::enable_shared_from_this<CapturedCall> {
 public:
  struct Parts {
    std::unique_ptr<const DeviceRequest> request;
    std::string algorithm;
    std::uint32_t number = 0;  ///< among the captured calls of the communicator, the same on all ranks
    PartOffsets offsets;       ///< of a _v call
    std::shared_ptr<const StreamPart> progress;
    DeviceLocation location;  ///< with the windows
    std::shared_ptr<transport::StreamLinks> links;
    std::shared_ptr<const void> memory;     ///< scratch and the like
    std::shared_ptr<const void> capture{};  ///< what calls of one capture share
  };
  CapturedCall(std::shared_ptr<Replays> replays, Parts parts);
  CapturedCall(const CapturedCall&) = delete;

  const Parts& parts() const { return parts_; }
  /// Whether somebody else has all that the driver would be called for when it goes.
  bool goes_silently() const noexcept;
  /// Its end is not in the graph.
  void breaks() noexcept { is_broken_.store(true); }

  // ---- On a thread of the driver's, each time that a stream gets there
  void begins() noexcept;
  void ends() noexcept;

  /// Owner of the engine: what stands for the call that runs, with a reference. Null: nothing does.
  Operation* operation = nullptr;

 private:
  const std::shared_ptr<Replays> replays_;
  const Parts parts_;
  std::atomic<bool> is_broken_{false};
};

/// For a call whose graph is gone: keeps it until one of those below is called, since the driver must not be called
/// where it says that.
void drop_later(std::shared_ptr<const CapturedCall> call) noexcept;
/// Where the program may expect that the driver waits for streams. A call of which the engine has still to hear stays.
void drop_graphs() noexcept;
/// The same of calls for which the driver waits for nobody.
void drop_graphs_silently() noexcept;

}  // namespace tutti::detail
