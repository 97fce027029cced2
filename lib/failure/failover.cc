// Who is the coordinator: the lowest rank that is alive, as far as this one knows. When it goes, everybody turns to the
// next. What the old coordinator knew of the others must not be lost with it:
//
//   a rank that does not come to the new coordinator   is looked for: if nobody listens at its address, its process is
//   gone ranks that are as silent as the old coordinator    (of one host, say) have been silent for as long, and are
//   given up
//                                                 together with it: as soon as a coordinator is silent, others ask the
//                                                 next candidates, so that those who do answer are known by then

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/failure/coordinator.h"
#include "lib/failure/detector.h"

namespace tutti::detail {
namespace {

using std::chrono::milliseconds;
namespace tcp = transport::tcp;

/// When the coordinator has left on purpose the job is usually about to end, and its successor too.
constexpr milliseconds succession_pause{300};
/// For others to come by themselves before they are looked for: to a new coordinator, and to the first.
constexpr milliseconds look_pause{100};
constexpr milliseconds first_look_pause{1000};
constexpr std::size_t most_unposted = 256;
constexpr std::size_t most_verdicts = 64;

}  // namespace

void FailureDetector::line_ended(int rank) {
  if (rank == coordinator_rank_) led_until_ = Clock::now();
  if (state(rank) == State::alive)
    return lose(rank,
                "its connection ended without a goodbye: its process crashed, was killed or exited early, or its "
                "network is cut; its own output says more");
  if (rank != coordinator_rank_) return;
  predecessor_died_ = state(rank) == State::lost;
  connect_at_ = Clock::now() + (predecessor_died_ ? milliseconds{0} : succession_pause);
  elect();
}

void FailureDetector::lose(int rank, const std::string& how) {
  state(rank) = State::lost;
  const Verdict verdict{0, ErrorCode::peer_lost, rank, 0, fmt::format("{} is lost: {}", name(rank), how)};
  give_up_before_ready(verdict);
  // Should it come back, it learns from this that the others went on without it.
  if (const auto connection = connections_.find(rank); connection != connections_.end())
    connection->second.send({.kind = ControlMessage::Kind::verdict, .verdict = verdict});
  connections_.erase(rank);
  calls_.forget(rank);
  if (rank == coordinator_rank_) {
    predecessor_died_ = true;
    connect_at_ = Clock::now();
    elect();
  }
  if (coordinator_) {
    coordinator_->publish(verdict);
    coordinator_->gone(rank);
  } else {
    learn(verdict);
    user_->failed(verdict);
  }
}

bool FailureDetector::learn(const Verdict& verdict) {
  const bool known = std::ranges::any_of(verdicts_, [&](const Verdict& earlier) {
    return earlier.group == verdict.group && (verdict.group != 0 || earlier.culprit == verdict.culprit);
  });
  if (known) return false;
  // Worst case: said twice. Losses of processes are no more than there are ranks.
  if (std::ranges::count_if(verdicts_, [](const Verdict& earlier) { return earlier.group != 0; }) == most_verdicts)
    verdicts_.erase(std::ranges::find_if(verdicts_, [](const Verdict& earlier) { return earlier.group != 0; }));
  verdicts_.push_back(verdict);
  return true;
}

/// The lowest rank that is alive. This one is, so there always is one.
void FailureDetector::elect() {
  int next = 0;
  while (next < rank_ && state(next) != State::alive) ++next;
  if (next == coordinator_rank_ && (coordinator_ || !is_coordinator())) return;
  coordinator_rank_ = next;
  if (is_coordinator() && !coordinator_) {
    take_office();
  } else if (connections_.contains(next)) {
    catch_up();
  }
}

void FailureDetector::take_office() {
  coordinator_ = std::make_unique<Coordinator>(*this);
  for (auto& [rank, connection] : connections_) coordinator_->brief(rank, connection);
  catch_up();
  for (const auto& [from, message] : std::exchange(early_, {}))
    if (state(from) == State::alive) coordinator_->handle(from, message);
  calls_.clear();
  const auto at = Clock::now() + (ready_ ? look_pause : first_look_pause);
  for (int rank = rank_ + 1; rank < size() && !cut_; ++rank)
    if (state(rank) == State::alive && !connections_.contains(rank))
      calls_.probe(rank, ranks_[static_cast<std::size_t>(rank)].address, at);
}

// ---- Looking for a coordinator --------------------------------------------------------------------------------------

/// Connects to the coordinator, and while it is silent to the next candidates, too, until one of them answers.
void FailureDetector::seek(Clock::time_point now) {
  if (const auto connection = connections_.find(coordinator_rank_); connection != connections_.end())
    led_until_ = std::max(led_until_, connection->second.heard());
  int open = reach(now);
  for (int rank = coordinator_rank_; rank < rank_ && !cut_; ++rank) {
    if (state(rank) != State::alive) continue;
    if (const auto connection = connections_.find(rank); connection != connections_.end()) {
      if (now - connection->second.heard() < settings_.beat * 3 / 2) return;
      continue;
    }
    if (open-- == 0) return;
    if (!calls_.contains(rank))
      calls_.connect(rank, ranks_[static_cast<std::size_t>(rank)].address, std::max(now, connect_at_));
  }
}

/// How many candidates to try at the same time: four times as many after each beat without a coordinator.
int FailureDetector::reach(Clock::time_point now) const {
  int reach = 1;
  if (!ready_) return reach;  // it may be slow to start
  for (auto silence = now - led_until_ - settings_.beat * 5 / 2; silence.count() > 0 && reach < size();
       silence -= settings_.beat)
    reach *= 4;
  return reach;
}

void FailureDetector::hear_calls(std::vector<Calls::Outcome> outcomes) {
  for (Calls::Outcome& outcome : outcomes) {
    if (outcome.error == 0) {
      reached(outcome.rank, std::move(outcome.connection));
    } else if (outcome.error == ECONNREFUSED) {
      refused(outcome.rank);
    } else {
      give_up_before_ready(
          {0, ErrorCode::system, rank_, 0,
           fmt::format("{} cannot connect to {}: {}", name(rank_), name(outcome.rank), tcp::text_of(outcome.error))});
    }
  }
}

void FailureDetector::reached(int rank, Descriptor socket) {
  if (state(rank) != State::alive || connections_.contains(rank)) return;
  connections_.emplace(rank, ControlConnection{std::move(socket)})
      .first->second.send({.kind = ControlMessage::Kind::beat});
  if (rank == coordinator_rank_) catch_up();
}

/// Its process is gone. Only what it has said before that may still be on its way to a coordinator: whoever said
/// something has been let in.
void FailureDetector::refused(int rank) {
  if (rank == coordinator_rank_) return coordinator_is_gone();
  if (!coordinator_ || has_left_) return;
  acceptor_->look(Purpose::failure_detector, [this, rank] { post([this, rank] { absentee_is_gone(rank); }); });
}

void FailureDetector::coordinator_is_gone() {
  if (predecessor_died_) return lose(coordinator_rank_, "its process does not exist any more");
  note_left(coordinator_rank_);
  unseen_.insert(coordinator_rank_);
  user_->departed({coordinator_rank_});
  give_up_before_ready(
      {0, ErrorCode::rendezvous, coordinator_rank_, 0, fmt::format("{} has given up", name(coordinator_rank_))});
  elect();
}

/// `rank` never came to this coordinator. If the one before has died, it has too; if that has left on purpose, nobody
/// knows: then those who wait for it fail, and nobody else.
void FailureDetector::absentee_is_gone(int rank) {
  const bool comes = connections_.contains(rank) ||
                     std::ranges::count(callers_, rank, [](const auto& caller) { return caller.first; }) > 0;
  if (state(rank) != State::alive || comes) return;
  if (predecessor_died_ || !ready_) return lose(rank, "its process does not exist any more");
  note_left(rank);
  unseen_.insert(rank);
  coordinator_->gone(rank);
}

void FailureDetector::send_to_coordinator(const ControlMessage& message) {
  if (coordinator_) return coordinator_->handle(rank_, message);
  const auto connection = connections_.find(coordinator_rank_);
  if (connection != connections_.end()) return connection->second.send(message);
  if (unposted_.size() < most_unposted) unposted_.push_back(message);
}

/// What was to be said while there was no coordinator.
void FailureDetector::catch_up() {
  for (const ControlMessage& message : std::exchange(unposted_, {})) send_to_coordinator(message);
  post([this] { tell_reunions(); });
}

/// Each coordinator hears of a reunion once: two decisions would make two groups.
void FailureDetector::tell_reunions() {
  if (!coordinator_ && !connections_.contains(coordinator_rank_)) return;
  std::vector<Report> reports;
  {
    const std::lock_guard lock{mutex_};
    for (const auto& [group, awaited] : reunions_)
      if (std::exchange(awaited->told, coordinator_rank_.load()) != coordinator_rank_)
        reports.push_back(awaited->report);
  }
  for (const Report& report : reports) send_to_coordinator({.kind = ControlMessage::Kind::reunion, .report = report});
}

}  // namespace tutti::detail
