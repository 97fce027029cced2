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

void Watch::welcome(int rank, Descriptor socket) {
  if (rank < 0 || rank >= size() || rank == rank_ || state(rank) != State::alive || lines_.contains(rank)) return;
  if (cut_) return;
  callers_.emplace_back(rank, Line{std::move(socket)});
  called_[rank] = Clock::now();
}

void Watch::hear_callers() {
  for (std::size_t i = 0; i < callers_.size();) {
    auto& [rank, line] = callers_[i];
    std::vector<Letter> letters;
    line.read(letters);
    if (!letters.empty()) {
      admit(rank, std::move(line), letters);
      i = 0;
    } else if (line.ended()) {
      callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

/// The first line on which `rank` has spoken.
void Watch::admit(int rank, Line line, const std::vector<Letter>& letters) {
  std::erase_if(callers_, [rank](const auto& caller) { return caller.first == rank; });
  if (state(rank) != State::alive || lines_.contains(rank)) return;
  Line& kept = lines_.emplace(rank, std::move(line)).first->second;
  calls_.forget(rank);
  if (centre_ && !kept.ended()) {
    centre_->brief(rank, kept);
    if (!ready_ && std::cmp_equal(lines_.size(), size() - 1)) set_ready();
  }
  heed(rank, letters);
}

void Watch::set_ready() {
  if (centre_)
    for (auto& [rank, line] : lines_) line.send({.kind = Letter::Kind::ready});
  const std::lock_guard lock{mutex_};
  ready_ = true;
  news_.notify_all();
}

void Watch::give_up_before_ready(const Verdict& verdict) {
  const std::lock_guard lock{mutex_};
  if (!ready_ && !hopeless_) hopeless_ = verdict;
  news_.notify_all();
}

void Watch::read(int rank) {
  const auto line = lines_.find(rank);
  std::vector<Letter> letters;
  line->second.read(letters);
  heed(rank, letters);
}

/// What has just been read on the line of `rank`, and the line's end if it came behind.
void Watch::heed(int rank, const std::vector<Letter>& letters) {
  const bool ended = lines_.find(rank)->second.ended();
  for (const Letter& letter : letters) handle(rank, letter);
  if (ended && lines_.erase(rank) > 0) line_ended(rank);
}

void Watch::handle(int from, const Letter& letter) {
  if (letter.kind == Letter::Kind::beat) return;
  if (letter.kind == Letter::Kind::leave) {
    note_left(from);
    give_up_before_ready({0, ErrorCode::rendezvous, from, 0, fmt::format("{} has given up", name(from))});
    note_departed(letter.ranks);
    if (centre_) {
      centre_->gone(from);
    } else {
      user_->departed({from});
    }
    return;
  }
  if (centre_) return centre_->handle(from, letter);
  if (from == centre_rank_) return handle_as_member(letter);
  // Whoever turns to us knows already that the centre is gone, which we are about to see.
  if (early_.size() < most_early) early_.emplace_back(from, letter);
}

void Watch::handle_as_member(const Letter& letter) {
  if (letter.kind == Letter::Kind::ready) return set_ready();
  if (letter.kind == Letter::Kind::verdict) {
    const Verdict& verdict = letter.verdict;
    if (verdict.group == 0 && verdict.culprit >= 0 && verdict.culprit < size()) {
      state(verdict.culprit) = State::lost;
      calls_.forget(verdict.culprit);
      give_up_before_ready(verdict);
    }
    learn(verdict);
    user_->failed(verdict);
  } else if (letter.kind == Letter::Kind::departed) {
    note_departed(letter.ranks);
    user_->departed(letter.ranks);
  } else if (letter.kind == Letter::Kind::question) {
    if (const auto status = user_->status(letter.report))
      send_to_centre({.kind = Letter::Kind::answer, .number = letter.number, .status = *status});
  } else if (letter.kind == Letter::Kind::decision) {
    const std::lock_guard lock{mutex_};
    const auto found = reunions_.find(letter.report.group);
    const auto exists = [this](int rank) { return rank >= 0 && rank < size(); };
    if (found == reunions_.end() || !std::ranges::all_of(letter.ranks, exists)) return;
    if (letter.number == 0) {
      found->second->missing = letter.ranks;
      return;
    }
    found->second->outcome = Reunion{letter.number, letter.ranks};
    reunions_.erase(found);  // final: if the coordinator leaves now, its successor must not be asked again
    news_.notify_all();
  }
}

void Watch::note_departed(const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size() || state(rank) != State::alive || rank == rank_) continue;
    note_left(rank);
  }
}

void Watch::note_left(int rank) {
  state(rank) = State::left;
  left_since_.emplace(rank, Clock::now());
  calls_.forget(rank);
}

}  // namespace tutti::detail
