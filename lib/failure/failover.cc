// The coordinator is the lowest rank that is alive, as far as this rank knows. When it goes, all ranks turn to the next
// one. The old coordinator's knowledge about the others must not be lost:
//
//   a rank that does not come to the new coordinator     is looked for: if nobody listens at its address, its process
//                                                        is gone
//   ranks that are as silent as the old coordinator      (of one host, say) have been silent for as long, and are given
//                                                        up together with it: as soon as a coordinator is silent,
//                                                        ranks ask the next candidates (succession.cc), so that those
//                                                        that answer are known by then

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/failure/coordinator.h"
#include "lib/failure/member.h"

namespace tutti::detail {
namespace {

using std::chrono::milliseconds;

/// How long other ranks have to connect by themselves before they are looked for: to a new coordinator, and to the
/// first one.
constexpr milliseconds look_pause{100};
constexpr milliseconds first_look_pause{1000};
constexpr std::size_t most_unposted = 256;

/// Why an attempt to connect to `address` has failed.
std::string reason_of(const ConnectAttempts::Outcome& outcome, const std::string& address) {
  if (outcome.error != EINVAL) return net::text_of(outcome.error);
  return fmt::format("it published \"{}\", which is no address; do all ranks run the same version of tutti?", address);
}

/// Until all have connected (`ready`), nobody knows whether that address leads to the rank.
std::string why_refused(const std::string& address, bool ready) {
  if (ready) return "its process does not exist any more";
  const bool is_of_this_host = address.starts_with("unix:");
  return fmt::format("connections to {} are refused: it has given up, or its process has ended (see its output){}",
                     address,
                     is_of_this_host ? ""
                                     : "; or a firewall refuses them, or the address leads to another host "
                                       "(TUTTI_SOCKET_IFNAME names the interface whose address others are told)");
}

}  // namespace

void Member::line_ended(int rank) {
  if (rank == coordinator()) succession_.set_led_until(Clock::now());
  if (job_.is_alive(rank))
    return lose(
        rank,
        "its connection ended unexpectedly, since its process crashed, was killed or exited early, or its network "
        "is cut; its own output says more");
  if (rank != coordinator()) return;
  succession_.note_gone(job_.is_lost(rank));
  elect();
}

void Member::lose(int rank, const std::string& how) {
  job_.set_lost(rank);
  const Failure failure{0, ErrorCode::peer_lost, rank, 0, fmt::format("{} is lost: {}", job_.name(rank), how)};
  shared_.readiness.give_up(failure);
  // If it comes back, it learns from this that the others went on without it.
  if (ControlConnection* const connection = connections_.find(rank))
    connection->send({.kind = ControlMessage::Kind::failure, .failure = failure});
  connections_.remove(rank);
  connections_.attempts().forget(rank);
  if (rank == coordinator()) {
    succession_.note_gone(true);
    elect();
  }
  if (coordinator_) {
    coordinator_->publish(failure);
    coordinator_->gone(rank);
  } else {
    job_.learn(failure);
    user_->failed(failure);
  }
}

void Member::elect() {
  const bool changed = succession_.elect();
  if (!changed && (coordinator_ || !is_coordinator())) return;
  if (is_coordinator() && !coordinator_) {
    take_office();
  } else if (connections_.contains(coordinator())) {
    catch_up();
  }
}

void Member::take_office() {
  coordinator_ = std::make_unique<Coordinator>(*this);
  for (auto& [rank, connection] : connections_.all()) coordinator_->brief(rank, connection);
  catch_up();
  for (const auto& [from, message] : std::exchange(early_, {}))
    if (job_.is_alive(from)) coordinator_->handle(from, message);
  connections_.attempts().clear();
  const auto at = Clock::now() + (shared_.readiness.is_ready() ? look_pause : first_look_pause);
  for (int rank = rank_ + 1; rank < job_.size() && !cut_; ++rank)
    if (job_.is_alive(rank) && !connections_.contains(rank))
      connections_.attempts().probe(rank, job_.address(rank), at);
}

// ---- Attempts to connect to others -----------------------------------------------------------------------------

void Member::hear_outcomes(std::vector<ConnectAttempts::Outcome> outcomes) {
  for (ConnectAttempts::Outcome& outcome : outcomes) {
    if (outcome.error == 0) {
      reached(outcome.rank, std::move(outcome.connection));
    } else if (outcome.error == ECONNREFUSED) {
      refused(outcome.rank);
    } else {
      const std::string text = fmt::format("{} cannot connect to {}: {}", job_.name(rank_), job_.name(outcome.rank),
                                           reason_of(outcome, job_.address(outcome.rank)));
      shared_.readiness.give_up({0, ErrorCode::system, rank_, 0, text});
    }
  }
}

void Member::reached(int rank, Descriptor socket) {
  if (!job_.is_alive(rank) || connections_.contains(rank)) return;
  connections_.add(rank, ControlConnection{std::move(socket)}).send({.kind = ControlMessage::Kind::beat});
  if (rank == coordinator()) catch_up();
}

/// The process of `rank` is gone. Messages that it sent before may still be on their way to a coordinator, but only if
/// it had been let in.
void Member::refused(int rank) {
  if (rank == coordinator()) return coordinator_is_gone();
  if (!coordinator_ || has_left_) return;
  acceptor_->look(Purpose::failure_detector,
                  [this, rank] { shared_.tasks.post([this, rank] { absentee_is_gone(rank); }); });
}

void Member::coordinator_is_gone() {
  const std::string why = why_refused(job_.address(coordinator()), shared_.readiness.is_ready());
  if (succession_.predecessor_died()) return lose(coordinator(), why);
  note_left(coordinator(), JobState::Seen::no);
  user_->departed({coordinator()});
  const std::string text = fmt::format("{} cannot be reached: {}", job_.name(coordinator()), why);
  shared_.readiness.give_up({0, ErrorCode::rendezvous, coordinator(), 0, text});
  elect();
}

/// `rank` never connected to this coordinator. If the previous coordinator died, `rank` has died, too. If that left on
/// purpose, nobody knows whether `rank` did; then ranks that wait for it fail, and no others.
void Member::absentee_is_gone(int rank) {
  const bool comes = connections_.contains(rank) || connections_.has_accepted(rank);
  if (!job_.is_alive(rank) || comes) return;
  const bool ready = shared_.readiness.is_ready();
  if (succession_.predecessor_died() || !ready) return lose(rank, why_refused(job_.address(rank), ready));
  note_left(rank, JobState::Seen::no);
  coordinator_->gone(rank);
}

void Member::send_to_coordinator(const ControlMessage& message) {
  if (coordinator_) return coordinator_->handle(rank_, message);
  if (ControlConnection* const connection = connections_.find(coordinator())) return connection->send(message);
  if (unposted_.size() < most_unposted) unposted_.push_back(message);
}

/// Sends the messages that had to wait for a coordinator, and suspicions about which the one before has not decided.
void Member::catch_up() {
  for (const auto& [failure, calls] : suspicions_.take_all()) suspect(failure, calls);
  for (const ControlMessage& message : std::exchange(unposted_, {})) send_to_coordinator(message);
  shared_.tasks.post([this] { tell_reunions(); });
}

void Member::tell_reunions() {
  if (!coordinator_ && !connections_.contains(coordinator())) return;
  for (const ControlMessage& message : shared_.reunions.untold(coordinator())) send_to_coordinator(message);
}

}  // namespace tutti::detail
