// Whom a rank listens to, and what becomes of what they say.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/failure/coordinator.h"
#include "lib/failure/detector.h"

namespace tutti::detail {
namespace {

constexpr std::size_t most_early = 256;

}  // namespace

void FailureDetector::welcome(int rank, Descriptor socket) {
  if (rank < 0 || rank >= size() || rank == rank_ || state(rank) != State::alive || connections_.contains(rank)) return;
  if (cut_) return;
  callers_.emplace_back(rank, ControlConnection{std::move(socket)});
  called_[rank] = Clock::now();
}

void FailureDetector::hear_callers() {
  for (std::size_t i = 0; i < callers_.size();) {
    auto& [rank, connection] = callers_[i];
    std::vector<ControlMessage> messages;
    connection.read(messages);
    if (!messages.empty()) {
      admit(rank, std::move(connection), messages);
      i = 0;
    } else if (connection.ended()) {
      callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

/// The first connection on which `rank` has spoken.
void FailureDetector::admit(int rank, ControlConnection connection, const std::vector<ControlMessage>& messages) {
  std::erase_if(callers_, [rank](const auto& caller) { return caller.first == rank; });
  if (state(rank) != State::alive || connections_.contains(rank)) return;
  ControlConnection& kept = connections_.emplace(rank, std::move(connection)).first->second;
  calls_.forget(rank);
  if (coordinator_ && !kept.ended()) {
    coordinator_->brief(rank, kept);
    if (!ready_ && std::cmp_equal(connections_.size(), size() - 1)) set_ready();
  }
  heed(rank, messages);
}

void FailureDetector::set_ready() {
  if (coordinator_)
    for (auto& [rank, connection] : connections_) connection.send({.kind = ControlMessage::Kind::ready});
  const std::lock_guard lock{mutex_};
  ready_ = true;
  news_.notify_all();
}

void FailureDetector::give_up_before_ready(const Verdict& verdict) {
  const std::lock_guard lock{mutex_};
  if (!ready_ && !hopeless_) hopeless_ = verdict;
  news_.notify_all();
}

void FailureDetector::read(int rank) {
  const auto connection = connections_.find(rank);
  std::vector<ControlMessage> messages;
  connection->second.read(messages);
  heed(rank, messages);
}

/// What has just been read on the connection of `rank`, and the connection's end if it came behind.
void FailureDetector::heed(int rank, const std::vector<ControlMessage>& messages) {
  const bool ended = connections_.find(rank)->second.ended();
  for (const ControlMessage& message : messages) handle(rank, message);
  if (ended && connections_.erase(rank) > 0) line_ended(rank);
}

void FailureDetector::handle(int from, const ControlMessage& message) {
  if (message.kind == ControlMessage::Kind::beat) return;
  if (message.kind == ControlMessage::Kind::leave) {
    note_left(from);
    give_up_before_ready({0, ErrorCode::rendezvous, from, 0, fmt::format("{} has given up", name(from))});
    note_departed(message.ranks);
    if (coordinator_) {
      coordinator_->gone(from);
    } else {
      user_->departed({from});
    }
    return;
  }
  if (coordinator_) return coordinator_->handle(from, message);
  if (from == coordinator_rank_) return handle_as_member(message);
  // Whoever turns to us knows already that the coordinator is gone, which we are about to see.
  if (early_.size() < most_early) early_.emplace_back(from, message);
}

void FailureDetector::handle_as_member(const ControlMessage& message) {
  if (message.kind == ControlMessage::Kind::ready) return set_ready();
  if (message.kind == ControlMessage::Kind::verdict) {
    const Verdict& verdict = message.verdict;
    if (verdict.group == 0 && verdict.culprit >= 0 && verdict.culprit < size()) {
      state(verdict.culprit) = State::lost;
      calls_.forget(verdict.culprit);
      give_up_before_ready(verdict);
    }
    learn(verdict);
    user_->failed(verdict);
  } else if (message.kind == ControlMessage::Kind::departed) {
    note_departed(message.ranks);
    user_->departed(message.ranks);
  } else if (message.kind == ControlMessage::Kind::question) {
    if (const auto status = user_->status(message.report))
      send_to_coordinator({.kind = ControlMessage::Kind::answer, .number = message.number, .status = *status});
  } else if (message.kind == ControlMessage::Kind::decision) {
    const std::lock_guard lock{mutex_};
    const auto found = reunions_.find(message.report.group);
    const auto exists = [this](int rank) { return rank >= 0 && rank < size(); };
    if (found == reunions_.end() || !std::ranges::all_of(message.ranks, exists)) return;
    if (message.number == 0) {
      found->second->missing = message.ranks;
      return;
    }
    found->second->outcome = Reunion{message.number, message.ranks};
    reunions_.erase(found);  // final: if the coordinator leaves now, its successor must not be asked again
    news_.notify_all();
  }
}

void FailureDetector::note_departed(const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size() || state(rank) != State::alive || rank == rank_) continue;
    note_left(rank);
  }
}

void FailureDetector::note_left(int rank) {
  state(rank) = State::left;
  left_since_.emplace(rank, Clock::now());
  calls_.forget(rank);
}

}  // namespace tutti::detail
