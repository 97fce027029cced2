// Who is the centre: the lowest rank that is alive, as far as this one knows. When it goes, everybody turns to the
// next. What the old centre knew of the others must not be lost with it:
//
//   a rank that does not come to the new centre   is looked for: if nobody listens at its address, its process is gone
//   ranks that are as silent as the old centre    (of one host, say) have been silent for as long, and are given up
//                                                 together with it: as soon as a centre is silent, others ask the next
//                                                 candidates, so that those who do answer are known by then

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

/// When the centre has left on purpose the job is usually about to end, and its successor too.
constexpr milliseconds succession_pause{300};
/// For others to come by themselves before they are looked for: to a new centre, and to the first.
constexpr milliseconds look_pause{100};
constexpr milliseconds first_look_pause{1000};
constexpr std::size_t most_unposted = 256;
constexpr std::size_t most_verdicts = 64;

}  // namespace

void Watch::line_ended(int rank) {
  if (rank == centre_rank_) led_until_ = Clock::now();
  if (state(rank) == State::alive)
    return lose(rank,
                "its connection ended without a goodbye: its process crashed, was killed or exited early, or its "
                "network is cut; its own output says more");
  if (rank != centre_rank_) return;
  predecessor_died_ = state(rank) == State::lost;
  connect_at_ = Clock::now() + (predecessor_died_ ? milliseconds{0} : succession_pause);
  elect();
}

void Watch::lose(int rank, const std::string& how) {
  state(rank) = State::lost;
  const Verdict verdict{0, ErrorCode::peer_lost, rank, 0, fmt::format("{} is lost: {}", name(rank), how)};
  give_up_before_ready(verdict);
  // Should it come back, it learns from this that the others went on without it.
  if (const auto line = lines_.find(rank); line != lines_.end())
    line->second.send({.kind = Letter::Kind::verdict, .verdict = verdict});
  lines_.erase(rank);
  calls_.forget(rank);
  if (rank == centre_rank_) {
    predecessor_died_ = true;
    connect_at_ = Clock::now();
    elect();
  }
  if (centre_) {
    centre_->publish(verdict);
    centre_->gone(rank);
  } else {
    learn(verdict);
    user_->failed(verdict);
  }
}

bool Watch::learn(const Verdict& verdict) {
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
void Watch::elect() {
  int next = 0;
  while (next < rank_ && state(next) != State::alive) ++next;
  if (next == centre_rank_ && (centre_ || !is_centre())) return;
  centre_rank_ = next;
  if (is_centre() && !centre_) {
    take_office();
  } else if (lines_.contains(next)) {
    catch_up();
  }
}

void Watch::take_office() {
  centre_ = std::make_unique<Centre>(*this);
  for (auto& [rank, line] : lines_) centre_->brief(rank, line);
  catch_up();
  for (const auto& [from, letter] : std::exchange(early_, {}))
    if (state(from) == State::alive) centre_->handle(from, letter);
  calls_.clear();
  const auto at = Clock::now() + (ready_ ? look_pause : first_look_pause);
  for (int rank = rank_ + 1; rank < size() && !cut_; ++rank)
    if (state(rank) == State::alive && !lines_.contains(rank))
      calls_.probe(rank, ranks_[static_cast<std::size_t>(rank)].address, at);
}

// ---- Looking for a centre --------------------------------------------------------------------------------------

/// Connects to the centre, and while it is silent to the next candidates, too, until one of them answers.
void Watch::seek(Clock::time_point now) {
  if (const auto line = lines_.find(centre_rank_); line != lines_.end())
    led_until_ = std::max(led_until_, line->second.heard());
  int open = reach(now);
  for (int rank = centre_rank_; rank < rank_ && !cut_; ++rank) {
    if (state(rank) != State::alive) continue;
    if (const auto line = lines_.find(rank); line != lines_.end()) {
      if (now - line->second.heard() < settings_.beat * 3 / 2) return;
      continue;
    }
    if (open-- == 0) return;
    if (!calls_.contains(rank))
      calls_.connect(rank, ranks_[static_cast<std::size_t>(rank)].address, std::max(now, connect_at_));
  }
}

/// How many candidates to try at the same time: four times as many after each beat without a centre.
int Watch::reach(Clock::time_point now) const {
  int reach = 1;
  if (!ready_) return reach;  // it may be slow to start
  for (auto silence = now - led_until_ - settings_.beat * 5 / 2; silence.count() > 0 && reach < size();
       silence -= settings_.beat)
    reach *= 4;
  return reach;
}

void Watch::hear_calls(std::vector<Calls::Outcome> outcomes) {
  for (Calls::Outcome& outcome : outcomes) {
    if (outcome.error == 0) {
      reached(outcome.rank, std::move(outcome.line));
    } else if (outcome.error == ECONNREFUSED) {
      refused(outcome.rank);
    } else {
      give_up_before_ready(
          {0, ErrorCode::system, rank_, 0,
           fmt::format("{} cannot connect to {}: {}", name(rank_), name(outcome.rank), tcp::text_of(outcome.error))});
    }
  }
}

void Watch::reached(int rank, Descriptor socket) {
  if (state(rank) != State::alive || lines_.contains(rank)) return;
  lines_.emplace(rank, Line{std::move(socket)}).first->second.send({.kind = Letter::Kind::beat});
  if (rank == centre_rank_) catch_up();
}

/// Its process is gone. Only what it has said before that may still be on its way to a centre: whoever said something
/// has been let in.
void Watch::refused(int rank) {
  if (rank == centre_rank_) return centre_is_gone();
  if (!centre_ || has_left_) return;
  door_->look(Purpose::watch, [this, rank] { post([this, rank] { absentee_is_gone(rank); }); });
}

void Watch::centre_is_gone() {
  if (predecessor_died_) return lose(centre_rank_, "its process does not exist any more");
  note_left(centre_rank_);
  unseen_.insert(centre_rank_);
  user_->departed({centre_rank_});
  give_up_before_ready({0, ErrorCode::rendezvous, centre_rank_, 0, fmt::format("{} has given up", name(centre_rank_))});
  elect();
}

/// `rank` never came to this centre. If the one before has died, it has too; if that has left on purpose, nobody knows:
/// then those who wait for it fail, and nobody else.
void Watch::absentee_is_gone(int rank) {
  const bool comes =
      lines_.contains(rank) || std::ranges::count(callers_, rank, [](const auto& caller) { return caller.first; }) > 0;
  if (state(rank) != State::alive || comes) return;
  if (predecessor_died_ || !ready_) return lose(rank, "its process does not exist any more");
  note_left(rank);
  unseen_.insert(rank);
  centre_->gone(rank);
}

void Watch::send_to_centre(const Letter& letter) {
  if (centre_) return centre_->handle(rank_, letter);
  const auto line = lines_.find(centre_rank_);
  if (line != lines_.end()) return line->second.send(letter);
  if (unposted_.size() < most_unposted) unposted_.push_back(letter);
}

/// What was to be said while there was no centre.
void Watch::catch_up() {
  for (const Letter& letter : std::exchange(unposted_, {})) send_to_centre(letter);
  post([this] { tell_reunions(); });
}

/// Each centre hears of a reunion once: two decisions would make two groups.
void Watch::tell_reunions() {
  if (!centre_ && !lines_.contains(centre_rank_)) return;
  std::vector<Report> reports;
  {
    const std::lock_guard lock{mutex_};
    for (const auto& [group, awaited] : reunions_)
      if (std::exchange(awaited->told, centre_rank_.load()) != centre_rank_) reports.push_back(awaited->report);
  }
  for (const Report& report : reports) send_to_centre({.kind = Letter::Kind::reunion, .report = report});
}

}  // namespace tutti::detail
