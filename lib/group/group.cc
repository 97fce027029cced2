#include "lib/group/group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "lib/base/internals.h"
#include "lib/base/rank_name.h"
#include "lib/base/topology.h"
#include "lib/failure/control_message.h"
#include "lib/failure/error_file.h"
#include "lib/group/context.h"
#include "lib/group/group_user.h"
#include "transport/memory/board.h"

namespace tutti::detail {
namespace {

/// Without the culprit's rank if there is no such rank: it came from another process, which may send any number.
Error with_valid_rank(const Error& error, int ranks) {
  if (error.rank() >= -1 && error.rank() < ranks) return error;
  Error valid{error.code(), error.what(), -1, error.operation()};
  Internals::set_details(valid, error.details());
  return valid;
}

}  // namespace

Group::Group(std::shared_ptr<Context> context, std::uint64_t id, std::vector<int> members, std::uint64_t parent)
    : context_(std::move(context)),
      id_(id),
      index_(context_->groups_made.fetch_add(1)),
      parent_(parent),
      members_(std::move(members)),
      group_rank_(static_cast<std::size_t>(context_->size), -1) {
  for (std::size_t i = 0; i < members_.size(); ++i)
    group_rank_[static_cast<std::size_t>(members_[i])] = static_cast<int>(i);
  rank_ = group_rank(context_->rank);
  context_->log.info(Log::Subsystem::init, fmt::format("makes communicator {:x}: rank {} of {}, world ranks {}", id_,
                                                       rank_, size(), fmt::join(members_, " ")));
}

void Group::join(GroupUser& collectives, GroupUser& messages) {
  context_->engine->exclusively([&] {
    collectives_ = &collectives;
    messages_ = &messages;
    try {
      context_->engine->attach(collective_channel(), collectives);
      context_->engine->attach(message_channel(), messages);
      context_->failure_router->attach(*this);
      if (context_->black_box) context_->black_box->add_group(id_, size(), rank_);
      if (context_->recorder) trace_index_ = context_->recorder->add_group(id_, rank_, members_);
    } catch (...) {
      detach();  // there is no memory, and no group either: the engine must not turn to it
      throw;
    }
  });
}

void Group::leave() noexcept {
  context_->engine->exclusively([this] { detach(); });
}

void Group::detach() noexcept {
  // Long enough for queued messages to reach the kernel. Finished operations have nothing queued.
  static constexpr std::chrono::seconds flush{2};
  const bool pending = collectives_->busy() || messages_->busy();
  if (pending)
    fail(Error{ErrorCode::aborted, fmt::format("{} destroyed its communicator with work pending", name_of(rank_)),
               rank_, collectives_->last_number()});
  const Error* reason = failure_ ? &*failure_ : nullptr;
  if (pending) fail_now();
  collectives_->close();
  messages_->close();
  for (const auto channel : {collective_channel(), message_channel()})
    context_->engine->detach(channel, reason, Clock::now() + flush);
  context_->engine->forget(*this);
  context_->failure_router->detach(*this);
  if (context_->black_box) context_->black_box->end_group(id_);
}

bool Group::has_any_of(std::span<const int> ranks) const {
  return std::ranges::any_of(ranks, [this](int rank) {
    return rank >= 0 && std::cmp_less(rank, group_rank_.size()) && group_rank(rank) >= 0;
  });
}

std::vector<int> Group::local_ranks() const {
  std::vector<int> local;
  for (int rank = 0; rank < size(); ++rank)
    if (rank == rank_ || context_->peers[static_cast<std::size_t>(global_rank(rank))].same_host) local.push_back(rank);
  return local;
}

int Group::ranks_on_each_host() const {
  std::vector<int> hosts;
  for (const int member : members_) hosts.push_back(context_->peers[static_cast<std::size_t>(member)].first_on_host);
  return tutti::ranks_on_each_host(hosts);
}

std::string Group::name_of(int rank) const {
  return name_in_group(rank, global_rank(rank), job_name(global_rank(rank)));
}

std::string Group::job_name(int global_rank) const {
  const Peer& peer = context_->peers[static_cast<std::size_t>(global_rank)];
  return fmt::format("rank {} (host {}, {})", global_rank, peer.host, peer.process);
}

transport::Transport* Group::shared_memory() const {
  transport::Transport* shared = nullptr;
  for (const int member : members_) {
    if (member == context_->rank) continue;
    transport::Transport* const transport = context_->peers[static_cast<std::size_t>(member)].transport;
    if (!transport || !transport->has_boards() || (shared && transport != shared)) return nullptr;
    shared = transport;
  }
  return shared;
}

Group::OfHost Group::shared_memory_of_host() const {
  OfHost host;
  for (int rank = 0; rank < size(); ++rank) {
    transport::Transport* const transport = context_->peers[static_cast<std::size_t>(global_rank(rank))].transport;
    const bool shares = rank != rank_ && transport->has_boards();
    if (shares) host.transport = transport;
    if (shares || rank == rank_) host.members.push_back(rank);
  }
  return host;
}

transport::Transport* Group::boards() const {
  return context_->board_limit > 0 && size() <= transport::Board::most_ranks ? shared_memory() : nullptr;
}

transport::Transport& Group::transport_to(int global, transport::Channel channel, const char* what) {
  transport::Transport& transport = *context_->peers[static_cast<std::size_t>(global)].transport;
  context_->log.info(std::string_view{transport.name()} == "shm" ? Log::Subsystem::shm : Log::Subsystem::net,
                     fmt::format("opens {} to rank {} over {}, channel {:x}", what, global, transport.name(), channel));
  return transport;
}

transport::Link& Group::open(int rank, transport::Channel channel) {
  const int global = global_rank(rank);
  return transport_to(global, channel, "a link").open(global, channel);
}

transport::Link& Group::open_aside(int rank, transport::Channel channel) {
  const int global = global_rank(rank);
  return transport_to(global, channel, "a link for credit").open_aside(global, channel);
}

void Group::add_awaited(int rank, transport::Channel channel, Status& status) const {
  const int global = global_rank(rank);
  status.awaited.push_back(global);
  if (context_->peers[static_cast<std::size_t>(global)].transport->may_bring_more(global, channel))
    status.unread.push_back(global);
}

void Group::fail(const Error& found, Origin origin) noexcept {
  if (failure_) return;  // the first failure is the cause, and later ones follow from it
  const Error reason = with_valid_rank(found, size());
  failure_.emplace(reason);
  if (reason.code() != ErrorCode::aborted || reason.rank() != rank_)
    write_error_file(reason);  // others', or found here
  if (reason.rank() >= 0 && reason.rank() < size()) {
    const Peer& culprit = context_->peers[static_cast<std::size_t>(global_rank(reason.rank()))];
    FailureDetails details = reason.details();
    details.host = culprit.host;
    details.process = culprit.process;
    Internals::set_details(*failure_, std::move(details));
  }
  context_->log.info(Log::Subsystem::init, fmt::format("communicator {:x} fails: {}", id_, failure_->what()));
  context_->engine->fail_soon(*this);
  context_->failure_router->spread(*this, *failure_, origin);
}

void Group::link_failed(const transport::Link& link, const Error& reason) noexcept {
  const Error explained = explain(link, reason);
  const bool certain = explained.details().reported || explained.code() != ErrorCode::peer_lost;
  if (!suspects_peer_ && certain) return fail(explained);
  suspect(explained);
}

void Group::suspect(const Error& reason) noexcept {
  if (failure_ || suspects_peer_) return;
  if (!context_->failure_router->is_watched()) return fail(reason);
  suspects_peer_ = true;
  context_->failure_router->suspect(*this, reason);
}

/// If the coordinator, which should have found out why the deadline passed, does not answer, it is the most likely
/// cause.
void Group::give_up(const std::string& text, int peer, std::uint64_t operation) noexcept {
  const int coordinator =
      context_->failure_router->is_watched() ? group_rank(context_->failure_router->detector().coordinator()) : rank_;
  if (coordinator < 0 || coordinator == rank_) return fail(Error{ErrorCode::timeout, text, peer, operation});
  fail(Error{ErrorCode::timeout,
             fmt::format("{}; {} does not answer: its process is stopped or starved, or its host or network is down",
                         text, name_of(coordinator)),
             coordinator, operation});
}

void Group::abort(std::string_view reason) noexcept {
  static constexpr std::chrono::milliseconds patience{900};
  const std::string text = fmt::format("{} aborted the communicator: {}", name_of(rank_), reason);
  const bool done = context_->engine->exclusively(
      [&] {
        fail(Error{ErrorCode::aborted, text, rank_, collectives_->last_number()});
      },
      Clock::now() + patience);
  if (!done) context_->failure_router->fail_later({id_, ErrorCode::aborted, context_->rank, 0, text});
}

void Group::fail_now() noexcept {
  if (context_->threads)  // without a detector only links carry the news, so open one to every rank
    for (int rank = 0; rank < size(); ++rank)
      if (rank != rank_) open(rank, message_channel());
  for (const auto channel : {collective_channel(), message_channel()})
    context_->engine->abort_channel(channel, *failure_);
  collectives_->fail_all(*failure_);
  messages_->fail_all(*failure_);
  // A program that does not catch the error ends soon. The thread drives nothing else meanwhile, and so does not wait
  // for its turn for long: a program that goes on writes at its end.
  if (context_->recorder) context_->recorder->flush({.in_all = std::chrono::seconds{10}});
}

Error Group::translate(const Failure& failure) const {
  if (failure.culprit < 0 || failure.culprit >= context_->size)
    return Error{failure.code, failure.text, -1, failure.operation};
  const int culprit = group_rank(failure.culprit);
  std::string text = failure.text;
  // The loss of a process names it by its rank in the job.
  const std::string job_name = this->job_name(failure.culprit);
  if (failure.group == 0 && text.starts_with(job_name))
    text.replace(0, job_name.size(), name_in_group(culprit, failure.culprit, job_name));
  return Error{failure.code, text, culprit, failure.operation};
}

Error Group::inherited(const Group& parent) const {
  const Error& reason = *parent.failure();
  const int culprit =
      reason.rank() >= 0 && reason.rank() < parent.size() ? group_rank(parent.global_rank(reason.rank())) : -1;
  return Error{
      reason.code(),
      fmt::format("the communicator it was made from has failed (ranks are numbered as there): {}", reason.what()),
      culprit, reason.operation()};
}

std::string part_of(const char* whole, std::string call) {
  return whole ? fmt::format("{}, in its {}", whole, call) : call;
}

bool Group::describe_wait(Status& status) const {
  bool waits = messages_->describe_wait(status, GroupUser::Which::waited_for);
  if (!waits || status.asynchronous) {
    Status collective;
    if (collectives_->describe_wait(collective, GroupUser::Which::waited_for) && (!waits || !collective.asynchronous)) {
      status = std::move(collective);
      waits = true;
    }
  }
  const char* const within = this->within();
  if (!within) return waits;
  if (!waits) {
    status.doing = within;
    status.wait = Status::Wait::other;
  } else if (status.wait == Status::Wait::collective) {
    status.doing = part_of(within, status.doing);
  }
  return true;
}

void Group::answer(const Report& report, Status& status) const {
  if (report.operation > 0)
    collectives_->describe_call(report.operation, status);
  else if (report.reporter == context_->rank)
    messages_->describe_wait(status, GroupUser::Which::all);
  else
    describe_wait(status);
}

void Group::cut_connections() noexcept {
  context_->failure_router->cut();
  context_->engine->cut();
}

Error Group::explain(const transport::Link& link, const Error& reason) const {
  const int peer = group_rank(link.peer());
  if (reason.details().reported) return reason;  // the peer has sent the cause, with ranks of the group
  const bool ours = reason.code() == ErrorCode::system;
  // Links know ranks of the job only.
  const bool same_numbers = peer == link.peer() && rank_ == context_->rank;
  return Error{reason.code(),
               fmt::format("{}{}: {}{}", ours ? "" : "lost ", name_of(ours ? rank_ : peer),
                           same_numbers ? "" : "in the ranks of the job, ", reason.what()),
               ours ? rank_ : peer, collectives_->last_number()};
}

}  // namespace tutti::detail
