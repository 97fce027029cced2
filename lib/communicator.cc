#include "tutti/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/call.h"
#include "lib/collectives.h"
#include "lib/communicator_state.h"
#include "lib/context.h"
#include "lib/messages.h"
#include "lib/persistent.h"

namespace tutti {
namespace detail {
namespace {

constexpr int highest_tag = 1 << 30;

/// Mixes a sub-group's parent, members and turn into a name that all members compute alike, without a message.
std::uint64_t subgroup_id(std::uint64_t parent, std::span<const int> members, std::uint32_t turn) {
  std::vector<std::size_t> words{static_cast<std::size_t>(parent), turn};
  for (const int member : members) words.push_back(static_cast<std::size_t>(member));
  return counts_hash(words) << 1;  // the lowest bit tells the lanes of a group apart
}

MessageCall checked_message(Group& group, Message::Kind kind, Buffer data, int peer, const MessageOptions& options) {
  const bool receive = kind == Message::Kind::receive;
  const char* name = receive ? "recv" : "send";
  const auto refuse = [&](const std::string& why) {
    throw Error{ErrorCode::invalid_argument,
                fmt::format("{} on rank {} of {}: {}", name, group.rank(), group.size(), why)};
  };
  if ((peer < 0 || peer >= group.size()) && !(receive && peer == any_source))
    refuse(fmt::format("{} is not a rank of this communicator; valid are 0 to {}{}", peer, group.size() - 1,
                       receive ? " and any_source" : ""));
  if ((options.tag < 0 || options.tag > highest_tag) && !(receive && options.tag == any_tag))
    refuse(fmt::format("tag {} is not in 0 to {}{}", options.tag, highest_tag, receive ? " nor any_tag" : ""));
  if (options.timeout.count() < 0) refuse(fmt::format("a timeout of {} ms is negative", options.timeout.count()));
  const std::span bytes{static_cast<std::byte*>(data.data), data.count * size_of(data.type)};
  const auto timeout = options.timeout.count() > 0 ? options.timeout : group.context().timeout;
  return {kind, bytes, data.count, data.type, peer, options.tag, timeout};
}

Work start(Group& group, Pending& pending) {
  pending.asynchronous = true;
  group.context().engine->submit(pending);
  return Work{&pending};
}

/// The same for a caller that waits right away: no helper thread need get ready.
Work start_waited(Group& group, Pending& pending) {
  group.context().engine->submit(pending);
  return Work{&pending};
}

/// The group of a call that sends, waits or changes something.
Group& called(CommunicatorState& state) {
  state.group.context().engine->require_own_process();
  return state.group;
}

Pending& make_collective(Group& group, const Request& request) {
  check_request(request, group);
  return group.collectives().make(request);
}

Buffer writable(ConstBuffer data) {
  return {const_cast<void*>(data.data), data.count, data.type};
}  // a send only reads

}  // namespace

Communicator world(std::shared_ptr<Context> context) {
  constexpr std::uint64_t world_id = 0x7475747469;  // "tutti"; any even number that no hash is likely to be
  std::vector<int> everyone(static_cast<std::size_t>(context->size));
  for (std::size_t i = 0; i < everyone.size(); ++i) everyone[i] = static_cast<int>(i);
  return Communicator{std::make_shared<CommunicatorState>(std::move(context), world_id << 1, std::move(everyone))};
}

}  // namespace detail

using detail::Message;

Communicator::Communicator(std::shared_ptr<detail::CommunicatorState> state) : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  Communicator old{std::move(other)};
  std::swap(state_, old.state_);
  return *this;
}
Communicator::~Communicator() {
  if (!state_) return;
  const detail::Engine& engine = *state_->group.context().engine;
  if (!engine.is_own_process()) keep_for_ever(std::move(state_));
}

int Communicator::rank() const { return state_->group.rank(); }
int Communicator::size() const { return state_->group.size(); }
int Communicator::local_rank() const { return state_->group.context().local_rank; }
int Communicator::local_size() const { return state_->group.context().local_size; }

Work Communicator::start_collective(const detail::Request& request) {
  detail::Group& group = detail::called(*state_);
  group.context().engine->get_helper();
  return detail::start(group, detail::make_collective(group, request));
}

void Communicator::run_collective(const detail::Request& request) {
  detail::Group& group = detail::called(*state_);
  if (group.collectives().run_again(request)) return;
  detail::check_request(request, group);
  if (group.collectives().run_at_once(request)) return;
  detail::start_waited(group, group.collectives().make(request)).wait();
}

Persistent Communicator::prepare_collective(const detail::Request& request) {
  detail::check_request(request, detail::called(*state_));
  return Persistent{std::make_unique<detail::PersistentCall>(state_, request)};
}

Work Communicator::start_send(detail::ConstBuffer data, int to, const MessageOptions& options) {
  detail::Group& group = detail::called(*state_);
  const auto call = detail::checked_message(group, Message::Kind::send, detail::writable(data), to, options);
  if (group.messages().send_at_once(call)) return Work{};
  group.context().engine->get_helper();
  return detail::start(group, group.messages().make(call));
}

void Communicator::run_send(detail::ConstBuffer data, int to, const MessageOptions& options) {
  detail::Group& group = detail::called(*state_);
  const auto call = detail::checked_message(group, Message::Kind::send, detail::writable(data), to, options);
  if (group.messages().send_at_once(call)) return;
  detail::start_waited(group, group.messages().make(call)).wait();
}

Work Communicator::start_recv(detail::Buffer data, int from, const MessageOptions& options) {
  detail::Group& group = detail::called(*state_);
  group.context().engine->get_helper();
  return detail::start(
      group, group.messages().make(detail::checked_message(group, Message::Kind::receive, data, from, options)));
}

MessageStatus Communicator::run_recv(detail::Buffer data, int from, const MessageOptions& options) {
  detail::Group& group = detail::called(*state_);
  const auto call = detail::checked_message(group, Message::Kind::receive, data, from, options);
  if (const auto status = group.messages().receive_at_once(call)) return *status;
  Work work = detail::start_waited(group, group.messages().make(call));
  work.wait();
  return work.status();
}

Communicator Communicator::subgroup(std::span<const int> ranks) {
  detail::Group& group = detail::called(*state_);
  const auto refuse = [&](const std::string& why) {
    throw Error{ErrorCode::invalid_argument,
                fmt::format("subgroup on rank {} of {}: {}", group.rank(), group.size(), why)};
  };
  std::vector<int> members;
  for (const int member : ranks) {
    if (member < 0 || member >= group.size())
      refuse(fmt::format("{} is not a rank of this communicator; valid are 0 to {}", member, group.size() - 1));
    const int global = group.global_rank(member);
    if (std::find(members.begin(), members.end(), global) != members.end())
      refuse(fmt::format("rank {} is listed twice", member));
    members.push_back(global);
  }
  if (std::find(ranks.begin(), ranks.end(), group.rank()) == ranks.end())
    refuse("this rank is not in the list; only the members of a sub-group call subgroup()");
  std::uint32_t turn = 0;
  {
    const std::lock_guard lock{state_->mutex};
    turn = state_->subgroups_made[members]++;
  }
  return Communicator{std::make_shared<detail::CommunicatorState>(
      group.shared_context(), detail::subgroup_id(group.id(), members, turn), std::move(members), group.id())};
}

Communicator Communicator::split(int colour, int key) {
  if (colour < 0)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("split on rank {} of {}: colour {} is negative", rank(), size(), colour)};
  const std::array<int, 2> mine{colour, key};
  std::vector<int> all(2 * static_cast<std::size_t>(size()));
  all_gather(mine, all);
  std::vector<int> ranks;
  for (int other = 0; other < size(); ++other)
    if (all[2 * static_cast<std::size_t>(other)] == colour) ranks.push_back(other);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return all[2 * static_cast<std::size_t>(a) + 1] < all[2 * static_cast<std::size_t>(b) + 1];
  });
  return subgroup(ranks);
}

void Communicator::abort(std::string_view reason) {
  detail::Group& group = detail::called(*state_);
  const auto limit = detail::Clock::now() + std::chrono::milliseconds{900};
  group.context().engine->exclusively([&] { group.abort(reason); }, limit);
}

Communicator Communicator::shrink(std::chrono::milliseconds timeout) {
  detail::Group& group = detail::called(*state_);
  detail::Context& context = group.context();
  if (!context.lookout->is_watched())
    throw Error{ErrorCode::unsupported,
                fmt::format("shrink on rank {} of {}: nobody watches the ranks of this communicator", rank(), size())};
  detail::Report report;
  context.engine->exclusively([&] { report = context.lookout->reunion_of(group); });
  const auto limit = detail::deadline_after(timeout.count() > 0 ? timeout : context.timeout);
  detail::Reunion reunion = context.lookout->watch().reunite(report, limit);
  return Communicator{
      std::make_shared<detail::CommunicatorState>(group.shared_context(), reunion.group, std::move(reunion.members))};
}

std::string Communicator::chosen_algorithm(Collective collective, std::size_t bytes) const {
  return state_->group.collectives().planner().name_of_choice({.collective = collective, .bytes = bytes});
}

std::string Communicator::transport_to(int peer) const {
  const detail::Group& group = state_->group;
  if (peer < 0 || peer >= group.size())
    throw Error{
        ErrorCode::invalid_argument,
        fmt::format("transport_to: {} is not a rank of this communicator; valid are 0 to {}", peer, group.size() - 1)};
  const auto* transport = group.context().peers[static_cast<std::size_t>(group.global_rank(peer))].transport;
  return transport ? transport->name() : "self";
}

}  // namespace tutti
