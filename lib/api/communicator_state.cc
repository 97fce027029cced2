#include "lib/api/communicator_state.h"

#include <string>
#include <string_view>
#include <utility>

#include "lib/api/late_ends.h"
#include "lib/api/stream_calls.h"
#include "lib/api/stream_setup.h"
#include "lib/gpu/device_stream.h"
#include "lib/gpu/staging.h"
#include "lib/group/context.h"

namespace tutti::detail {
namespace {

/// What the whole group talks over, in the tuning table's words: TCP as soon as one pair of the group needs it.
std::string slowest_transport(const Group& group) {
  std::string slowest = "shm";
  for (const int member : group.members()) {
    const auto* transport = group.context().peers[static_cast<std::size_t>(member)].transport;
    if (!transport) continue;
    if (std::string_view{transport->name()} == "tcp") return "tcp";
    slowest = transport->name();
  }
  return slowest;
}

/// The domain of each rank, where ranks of one host use boards.
std::vector<int> domains_of(const Group& group) {
  std::vector<Place> places;
  if (!group.boards()) return {};
  for (const int member : group.members())
    places.push_back(group.context().peers[static_cast<std::size_t>(member)].place);
  return tutti::domains_of(places);
}

/// Where all hosts have as many neighbouring ranks, plans keep to the host what they can.
Planner planner_for(const Group& group) {
  const Context& context = group.context();
  const int on_each = group.ranks_on_each_host();
  return Planner{{.rank = group.rank(),
                  .ranks = group.size(),
                  .transport = on_each > 1 ? "hosts" : slowest_transport(group),
                  .ranks_on_each_host = on_each,
                  .domains = domains_of(group),
                  .oversubscribed = context.oversubscribed,
                  .boards = group.boards() != nullptr,
                  .deterministic = context.deterministic,
                  .default_algorithms = context.default_algorithms,
                  .table = context.tuning,
                  .given = context.given,
                  .log = &context.log}};
}

}  // namespace

CommunicatorState::CommunicatorState(std::shared_ptr<Context> context, std::uint64_t id, std::vector<int> members,
                                     std::uint64_t parent)
    : group(std::move(context), id, std::move(members), parent),
      collectives(group, group.collective_channel(), planner_for(group)),
      messages(group, group.message_channel()) {
  group.join(collectives, messages);
}

CommunicatorState::~CommunicatorState() {
  if (streams_) streams_->leave();
  if (staged_trace_) staged_trace_->collect();
  group.leave();
}

std::shared_ptr<CommunicatorState> make_state(std::shared_ptr<Context> context, std::uint64_t id,
                                              std::vector<int> members, std::uint64_t parent) {
  const auto end = [](CommunicatorState* state) {
    if (state->group.context().engine->is_owned_here()) return end_later(state);
    delete state;
  };
  return {new CommunicatorState(std::move(context), id, std::move(members), parent), end};
}

std::shared_ptr<StreamTrace::Call> CommunicatorState::traced(const DeviceStream& stream, const Staging& staging) {
  const Context& context = group.context();
  if (!context.recorder) return nullptr;
  const std::lock_guard lock{staged_trace_mutex_};
  if (!staged_trace_)
    staged_trace_ = std::make_unique<StreamTrace>(
        StreamTrace::Owner{context.engine, context.recorder.get(), group.trace_index(), group.members()});
  staged_trace_->collect();
  staged_trace_->enter(stream.known_context(), true);
  return staged_trace_->add_staged(stream.known_context(), staging.input_bytes(), staging.output_bytes());
}

StreamCalls* CommunicatorState::streams_if_any() {
  const std::lock_guard lock{streams_mutex_};
  return streams_.get();
}

bool CommunicatorState::streams_are_decided() {
  const std::lock_guard lock{streams_mutex_};
  return streams_decided_;
}

void CommunicatorState::stage_all() {
  const std::lock_guard lock{streams_mutex_};
  streams_decided_ = true;
}

StreamCalls* CommunicatorState::streams(Communicator& comm, const DeviceStream& stream) {
  const std::lock_guard lock{streams_mutex_};
  if (!streams_decided_)
    if (auto decided = set_up_streams(comm, *this, stream)) {
      streams_ = std::move(*decided);
      streams_decided_ = true;
    }
  return streams_.get();
}

}  // namespace tutti::detail
