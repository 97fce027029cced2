// Keys, under the store's prefix:
//   rendezvous       size and attempt, written by the first rank to come, or by one that found the last attempt spent
//   <attempt>/...    everything below, and the rounds of exchange()
//     place/<rank>   the process that has that place: compare_set admits one process and tells a second one who it was;
//                    "left ..." when that process has gone
//     .will/<rank>   changes to make when it goes (leave_actions.h):
//       rank_info/<rank> is erased: rank 0 waits on, until another process with that rank comes;
//       access/<rank> and fallback/<rank> say that it is gone, for ranks that have met it already, and so that rank 0
//       does not wait for it;
//       place/<rank> is free.

#include "rendezvous/attendance.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <thread>
#include <utility>

#include "lib/security/secret.h"
#include "rendezvous/exchange.h"
#include "rendezvous/process.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view left_mark = "left ";
// Precedes each value of a round.
constexpr char here_mark = '=';
constexpr char gone_mark = '!';
constexpr char declined_mark = '?';

/// Tries to take a place. A server may see a successor before it has seen its predecessor end.
constexpr int tries = 20;
constexpr milliseconds between_tries{10};

/// "process 12 on n07 (8d1f...)". The identity tells apart processes of two containers with the same pid and host name.
std::string name_of_this_process() {
  std::array<std::byte, 8> random{};
  fill_with_random(random);
  std::string name = describe(this_process()) + " (";
  for (const std::byte byte : random) name += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return name + ")";
}

/// Without the identity, which is of no use to people.
std::string for_people(std::string_view name) {
  if (name.starts_with(left_mark)) name.remove_prefix(left_mark.size());
  return std::string{name.substr(0, name.find(" ("))};
}

std::string place_of(int rank) { return fmt::format("place/{}", rank); }

/// The attempt in "<size> <attempt>"; -1: `state` has another form.
int attempt_in(const std::string& state) {
  int attempt = -1;
  const std::size_t blank = state.find(' ');
  if (blank != std::string::npos) std::from_chars(state.data() + blank + 1, state.data() + state.size(), attempt);
  return attempt;
}

Error other_size(int rank, int size, const std::string& state) {
  return {ErrorCode::rendezvous,
          fmt::format("rank {} was told that there are {} ranks, but another was told {}: the processes were started "
                      "with different sizes, or two jobs meet in one store (give each its own TUTTI_JOB).",
                      rank, size, state.substr(0, state.find(' '))),
          rank};
}

Error taken(int rank, const std::string& holder) {
  return {ErrorCode::rendezvous,
          fmt::format("rank {} is already taken by {}: two processes were started with the same rank, or the store "
                      "holds the keys of an earlier run (restart it, or give each run its own TUTTI_JOB).",
                      rank, for_people(holder)),
          rank};
}

}  // namespace

Attendance::Attendance(std::shared_ptr<Store> store, int rank, int size, Deadline deadline)
    : store_(std::move(store)), rank_(rank), size_(size), deadline_(deadline), me_(name_of_this_process()) {
  if (rank < 0 || rank >= size)
    throw Error{ErrorCode::invalid_argument, fmt::format("rank {} is not one of {} ranks.", rank, size), rank};
  do {
    find_attempt();
    view_ = prefix_store(std::to_string(attempt_in(state_)), store_);
    if (std::chrono::steady_clock::now() > deadline)
      throw Error{ErrorCode::rendezvous, fmt::format("rank {} reached the store after its deadline.", rank), rank};
  } while (!take_place());
}

Attendance::~Attendance() {
  if (!present_ || complete_) return;
  try {
    leave_actions().execute(*view_, std::to_string(rank_));
  } catch (...) {  // of a store of the program's own: anything
    // The store is gone, or will notice that this process is.
  }
}

/// A store that outlives a job may serve one of another size next.
void Attendance::find_attempt() {
  const std::string mine = fmt::format("{} ", size_);
  for (int left_to_try = tries;; --left_to_try) {
    state_ = store_->compare_set("rendezvous", "", mine + "0");
    const bool known = attempt_in(state_) >= 0;
    if (known && state_.starts_with(mine)) return;
    if (known && all_have_left()) {
      call_next_attempt();
    } else if (!known || left_to_try == 0) {
      throw other_size(rank_, size_, state_);
    } else {
      std::this_thread::sleep_for(between_tries);
    }
  }
}

/// Of the job of another size whose attempt state_ names.
bool Attendance::all_have_left() {
  view_ = prefix_store(std::to_string(attempt_in(state_)), store_);
  const int size = std::atoi(state_.c_str());
  int rank = 0;
  while (rank < size && !departed(rank).empty()) ++rank;
  return size > 0 && rank == size;
}

/// False: this attempt is spent.
bool Attendance::take_place() {
  leave_actions().deposit(*view_, std::to_string(rank_));  // valid from the moment at which the place is this rank's
  for (int left_to_try = tries;; std::this_thread::sleep_for(between_tries)) {
    std::string holder = view_->compare_set(place_of(rank_), "", me_);
    if (holder.starts_with(left_mark)) {
      if (!clear_after_predecessor()) {
        call_next_attempt();
        return false;
      }
      holder = view_->compare_set(place_of(rank_), holder, me_);
    }
    present_ = holder == me_;
    if (present_) return true;
    if (--left_to_try > 0) continue;
    try {
      leave_actions().execute(*view_, std::to_string(rank_));  // change nothing, but say that this process gives up
    } catch (...) {
      // The store may have ended. Why this rank is refused matters more.
    }
    throw taken(rank_, holder);
  }
}

/// False: the others have met the predecessor.
bool Attendance::clear_after_predecessor() {
  const std::string all = fmt::format("{}/all", first_round);
  if (view_->check({&all, 1})) return false;
  view_->erase(fmt::format("{}/read/{}", first_round, rank_));
  view_->erase(fmt::format("{}/{}", first_round, rank_));  // it may have declined
  for (const std::string_view round : {second_round, third_round}) {
    view_->erase(fmt::format("{}/read/{}", round, rank_));
    view_->erase(fmt::format("{}/{}", round, rank_));
    if (rank_ == 0) view_->erase(fmt::format("{}/all", round));
  }
  return true;
}

LeaveActions Attendance::leave_actions() const {
  LeaveActions actions{place_of(rank_), me_};
  if (!complete_) {
    actions.erase(fmt::format("{}/{}", first_round, rank_));
    actions.set(fmt::format("{}/read/{}", first_round, rank_), "");
    for (const std::string_view round : {second_round, third_round}) {
      actions.set(fmt::format("{}/{}", round, rank_), gone_mark + me_);
      if (rank_ == 0) actions.set(fmt::format("{}/all", round), "");  // so that the others look for themselves
      actions.set(fmt::format("{}/read/{}", round, rank_), "");
    }
  }
  actions.set(place_of(rank_), std::string{left_mark} + me_);
  return actions;
}

void Attendance::call_next_attempt() {
  store_->compare_set("rendezvous", state_, fmt::format("{} {}", size_, attempt_in(state_) + 1));
}

std::vector<std::string> Attendance::exchange(std::string_view round, std::string_view mine) {
  const std::string published = here_mark + std::string{mine};
  std::vector<std::string> values;
  try {
    values = rendezvous::exchange(*view_, round, rank_, size_, published, deadline_,
                                  [this](int rank) { return !departed(rank).empty(); });
  } catch (const Error& error) {
    const std::string who = departed(error.rank());
    if (who.empty() || has_declined(error.rank())) throw;
    throw Error{error.code(), fmt::format("{} Rank {} had come, {}, but has ended.", error.what(), error.rank(), who),
                error.rank()};
  }
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (!values[rank].starts_with(here_mark)) throw went_too_early(static_cast<int>(rank), values[rank]);
    values[rank].erase(0, 1);
  }
  if (values[static_cast<std::size_t>(rank_)] != mine) {
    call_next_attempt();
    throw Error{
        ErrorCode::rendezvous,
        fmt::format(
            "rank {} joined just after the others had met its predecessor, which has ended. Start it again; all "
            "ranks then meet anew.",
            rank_),
        rank_};
  }
  return values;
}

/// The process that had that place and has gone; empty: none, or the store does not say.
std::string Attendance::departed(int rank) {
  if (rank < 0) return "";
  try {
    const std::string place = place_of(rank);
    const std::string holder = view_->check({&place, 1}) ? view_->get(place) : "";
    return holder.starts_with(left_mark) ? for_people(holder) : "";
  } catch (const Error&) {
    return "";
  }
}

bool Attendance::has_declined(int rank) {
  try {
    const std::string key = fmt::format("{}/{}", first_round, rank);
    return view_->check({&key, 1}) && view_->get(key).starts_with(declined_mark);
  } catch (const Error&) {
    return false;
  }
}

void Attendance::decline(const Error& reason) {
  const Error told{reason.code(),
                   fmt::format("rank {} ({}) cannot take part: {}", rank_, for_people(me_), reason.what()), rank_};
  rendezvous::decline(*view_, first_round, rank_, size_, declined_mark + std::string{told.what()}, told);
  complete_ = true;
  leave_actions().deposit(*view_, std::to_string(rank_));  // in place of those that take back what was published
  leave_actions().execute(*view_, std::to_string(rank_));
}

Error Attendance::went_too_early(int rank, std::string_view value) {
  try {
    call_next_attempt();
  } catch (...) {  // of a store of the program's own: anything
    // It may have ended with rank 0, which has just learnt the same.
  }
  if (value.starts_with(declined_mark)) return {ErrorCode::rendezvous, std::string{value.substr(1)}, rank};
  if (!value.empty()) value.remove_prefix(1);
  return {ErrorCode::rendezvous,
          fmt::format("rank {} ({}) ended before all ranks had met: see its output. Restart all ranks that have ended "
                      "with this error; they meet anew.",
                      rank, for_people(value)),
          rank};
}

void Attendance::complete() {
  complete_ = true;
  try {
    leave_actions().deposit(*view_, std::to_string(rank_));
  } catch (const Error&) {
    // Rank 0 and its server may have ended already. Then no process wants the place.
  }
}

}  // namespace tutti::rendezvous
