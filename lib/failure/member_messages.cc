// Handles the messages of other ranks.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/failure/coordinator.h"
#include "lib/failure/member.h"

namespace tutti::detail {
namespace {

constexpr std::size_t most_early = 256;

/// Whether the call is overdue is not sent, but tells how urgent the answer is.
ControlMessage answer_to(const ControlMessage& question, const Status& status) {
  ControlMessage answer{.kind = ControlMessage::Kind::answer, .number = question.number, .status = status};
  answer.report.overdue = question.report.overdue;
  return answer;
}

}  // namespace

void Member::accept(int rank, Descriptor socket) {
  if (!job_.exists(rank) || rank == rank_ || !job_.is_alive(rank) || connections_.contains(rank)) return;
  if (cut_) return;
  connections_.accept(rank, std::move(socket));
}

/// Takes into use the first connection on which a rank has sent a message.
void Member::admit(Connections::Accepted accepted) {
  const int rank = accepted.rank;
  if (!job_.is_alive(rank) || connections_.contains(rank)) return;
  ControlConnection& kept = connections_.add(rank, std::move(accepted.connection));
  connections_.attempts().forget(rank);
  if (coordinator_ && !kept.ended()) {
    coordinator_->brief(rank, kept);
    if (!shared_.readiness.is_ready() && std::cmp_equal(connections_.size(), job_.size() - 1)) set_ready();
  }
  heed(rank, accepted.messages);
}

void Member::set_ready() {
  if (coordinator_) connections_.send_to_all({.kind = ControlMessage::Kind::ready});
  shared_.readiness.set_ready();
}

/// Handles the messages that have been read from `rank`, and the end of its connection if that followed.
void Member::heed(int rank, const std::vector<ControlMessage>& messages) {
  const bool ended = connections_.find(rank)->ended();
  for (const ControlMessage& message : messages) handle(rank, message);
  if (ended && connections_.remove(rank)) line_ended(rank);
}

void Member::handle(int from, const ControlMessage& message) {
  if (message.kind == ControlMessage::Kind::beat) return;
  if (message.kind == ControlMessage::Kind::leave) {
    note_left(from, JobState::Seen::yes);
    shared_.readiness.give_up({0, ErrorCode::rendezvous, from, 0, fmt::format("{} has given up", job_.name(from))});
    note_departed(message.ranks);
    if (coordinator_) {
      coordinator_->gone(from);
    } else {
      user_->departed({from});
    }
    return;
  }
  if (coordinator_) return coordinator_->handle(from, message);
  if (from == coordinator()) return handle_as_member(message);
  // A rank that turns to this one already knows that the coordinator is gone, which is about to show here.
  if (early_.size() < most_early) early_.emplace_back(from, message);
}

void Member::handle_as_member(const ControlMessage& message) {
  if (message.kind == ControlMessage::Kind::ready) return set_ready();
  if (message.kind == ControlMessage::Kind::failure) {
    const Failure& failure = message.failure;
    if (failure.group == 0 && job_.exists(failure.culprit)) {
      job_.set_lost(failure.culprit);
      connections_.attempts().forget(failure.culprit);
      shared_.readiness.give_up(failure);
    }
    job_.learn(failure);
    user_->failed(failure);
  } else if (message.kind == ControlMessage::Kind::departed) {
    note_departed(message.ranks);
    user_->departed(message.ranks);
  } else if (message.kind == ControlMessage::Kind::question) {
    user_->status(message.report, [this, asker = coordinator(), question = message](const Status& status) {
      shared_.tasks.post([this, asker, answer = answer_to(question, status)] {
        if (asker != coordinator()) return;  // to the next one the number says something else
        send_to_coordinator(answer);
      });
    });
  } else if (message.kind == ControlMessage::Kind::decision) {
    const bool makes_sense = std::ranges::all_of(message.ranks, [this](int rank) { return job_.exists(rank); });
    if (makes_sense && shared_.reunions.decided(message)) shared_.tasks.post([this] { tell_reunions(); });
  }
}

void Member::note_departed(const std::vector<int>& ranks) {
  for (const int rank : ranks)
    if (job_.exists(rank) && job_.is_alive(rank) && rank != rank_) note_left(rank, JobState::Seen::yes);
}

void Member::note_left(int rank, JobState::Seen seen) {
  job_.set_left(rank, seen);
  connections_.attempts().forget(rank);
}

}  // namespace tutti::detail
