#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/collective/collectives.h"
#include "lib/gpu/stream_trace.h"
#include "lib/group/context.h"
#include "lib/group/group.h"
#include "lib/message/messages.h"
#include "tutti/communicator.h"

namespace tutti::transport {
class InprocHub;
}

namespace tutti::detail {

class DeviceStream;
class Staging;
class StreamCalls;

/// The state of a Communicator.
class CommunicatorState {
 public:
  CommunicatorState(std::shared_ptr<Context> context, std::uint64_t id, std::vector<int> members,
                    std::uint64_t parent = 0);
  ~CommunicatorState();

  Group group;
  Collectives collectives;
  Messages messages;
  /// The calls on device memory that run on streams; null: they are staged. The first call with device memory in
  /// which all ranks name their GPUs decides; they make it at the same place.
  StreamCalls* streams(Communicator& comm, const DeviceStream& stream);
  /// Those, if that has been decided already.
  StreamCalls* streams_if_any();
  bool streams_are_decided();
  /// Decides that all calls on device memory are staged. All ranks do so, before the first one.
  void stage_all();

  /// A call on device memory that is staged, for the trace; null: it is not recorded.
  std::shared_ptr<StreamTrace::Call> traced(const DeviceStream& stream, const Staging& staging);

  std::atomic<std::uint32_t> windows_made{0};  ///< by calls that all ranks make in the same order
  std::atomic<std::uint32_t> splits_made{0};   ///< the same
  std::mutex mutex;                            ///< of what follows
  /// How often subgroup() was called for each list of ranks, by a hash of the list. Only the ranks in a list know of
  /// it, so no count can ever be dropped: some 40 bytes stay for each different list.
  std::unordered_map<std::uint64_t, std::uint32_t> subgroups_made;

 private:
  std::mutex streams_mutex_;
  bool streams_decided_ = false;
  std::unique_ptr<StreamCalls> streams_;
  std::mutex staged_trace_mutex_;
  std::unique_ptr<StreamTrace> staged_trace_;  // null: no staged call was recorded
};

/// Makes the state of a communicator, which may also end on the thread that owns the engine.
std::shared_ptr<CommunicatorState> make_state(std::shared_ptr<Context> context, std::uint64_t id,
                                              std::vector<int> members, std::uint64_t parent = 0);

/// The communicator of all ranks of a context that join_ranks() has filled.
Communicator world(std::shared_ptr<Context> context);

/// The implementation of connect(). `threads`: where ranks meet that are threads of this process; null: they are
/// processes. `tls_proxies`: those that encrypt the store in `options`, for all other connections, too; null: options
/// and environment say whether there are any.
Communicator join(const ConnectOptions& options, const std::shared_ptr<transport::InprocHub>& threads,
                  const std::shared_ptr<TlsProxies>& tls_proxies = nullptr);
/// In place of join(), for a rank that has found before that it cannot take part: throws `reason` once the ranks that
/// wait in the store of `options`, if it has one, have been told.
[[noreturn]] void do_not_join(const ConnectOptions& options, const Error& reason);

/// Whether this rank gives elements to the call, or gets some from it.
bool uses_input(const Request& request, int rank);
bool uses_output(const Request& request, int rank);
/// "all_gather_v on rank 1 of 4", for errors.
std::string name_on_rank(const Request& request, const Group& group);

/// Throws Error{invalid_argument} or {unsupported} if the call is wrong whatever the other ranks do.
void check_request(const Request& request, const Group& group);
/// Throws Error{invalid_argument} if a buffer of this call on host memory is a GPU's, which the processor cannot read.
/// Costs a look at a variable where this process has loaded no driver.
void refuse_device_memory(const Request& request, const Group& group);

/// For `call` on a communicator without a state.
[[noreturn]] void refuse_moved(std::string_view call);

inline const char* name_of_call(Collective call) { return name_of(call); }
inline const char* name_of_call(const char* call) { return call; }

/// The group of any call; errors name the call if the communicator has none.
template <class Name>
Group& group_of(const std::shared_ptr<CommunicatorState>& state, Name call) {
  if (!state) [[unlikely]]
    refuse_moved(name_of_call(call));
  return state->group;
}

/// The group of a call that sends, waits or changes state.
template <class Name>
Group& called(const std::shared_ptr<CommunicatorState>& state, Name call) {
  Group& group = group_of(state, call);
  group.context().engine->require_own_process();
  return group;
}

}  // namespace tutti::detail
