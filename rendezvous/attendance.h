#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/last_will.h"
#include "tutti/error.h"
#include "tutti/store.h"

namespace tutti::rendezvous {

/// One rank's part in a meeting: it takes its place, and exchanges with all others what they need to know of each
/// other, in two rounds ("card" and "shm").
///
/// A rank that goes before the first round is over, by an error or a signal, frees its place: another process with its
/// rank may take it, and the others just go on waiting. One that goes later has been met, so the meeting has failed:
/// all others hear of it at once, in an error that names it, and who joins then meets in the next attempt, under keys
/// of its own. A TCP store of ours sees a process end; in other stores this works for ranks that end by an error.
///
/// Threading: as the store's. Ownership: goes before the store does.
class Attendance {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Takes the place `rank` of `size`. Throws Error{rendezvous} when another process has it, or was told another size.
  /// Three messages per rank; does not wait for the others.
  Attendance(std::shared_ptr<Store> store, int rank, int size, Deadline deadline);
  /// Unless complete(), gives the place back.
  ~Attendance();
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;

  /// A view of this attempt's keys.
  Store& store() { return *view_; }

  /// The rounds, see rendezvous::exchange(). Collective, in this order. Throw Error{rendezvous} that names who went.
  std::vector<std::string> exchange_rank_infos(std::string_view mine) { return exchange(first_round, mine); }
  std::vector<std::string> exchange_outcomes(std::string_view mine) { return exchange(second_round, mine); }

  /// All have met. The place stays this rank's as long as its store is open.
  void complete();

 private:
  static constexpr std::string_view first_round = "card";
  static constexpr std::string_view second_round = "shm";

  bool take_place();
  bool clear_after_predecessor();
  LastWill will() const;
  void call_next_attempt();
  std::vector<std::string> exchange(std::string_view round, std::string_view mine);
  std::string departed(int rank);
  Error went_too_early(int rank, std::string_view value);

  std::shared_ptr<Store> store_;
  int rank_;
  int size_;
  Deadline deadline_;
  std::string meeting_;  ///< the value of the key "meeting": size and attempt
  std::shared_ptr<Store> view_;
  std::string me_;
  bool present_ = false;
  bool complete_ = false;
};

}  // namespace tutti::rendezvous
