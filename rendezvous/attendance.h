#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/leave_actions.h"
#include "tutti/error.h"
#include "tutti/store.h"

namespace tutti::rendezvous {

/// One rank's part in a rendezvous: it takes its place, and exchanges what the ranks must know of each other, in two
/// rounds ("rank_info" and "access"), and perhaps a third ("fallback").
///
/// A rank that goes before the first round is over, by an error or a signal, frees its place: another process with its
/// rank may take it, and the others continue to wait. If a rank goes later, others have met it already, and the
/// rendezvous has failed. All others get an error that names it at once. Ranks that join afterwards meet in the next
/// attempt, under new keys. Our TCP store notices the end of a process; with other stores this works only for ranks
/// that end by an error.
///
/// Threading: as the store. Ownership: must be destroyed before the store.
class Attendance {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Takes the place `rank` of `size`. Throws Error{rendezvous} if another process has it, or was given another size.
  /// Three messages per rank; does not wait for the others.
  Attendance(std::shared_ptr<Store> store, int rank, int size, Deadline deadline);
  /// Gives the place back, except after complete().
  ~Attendance();
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;

  /// A view of the store under this attempt's prefix.
  Store& store() { return *view_; }

  /// The rounds, see rendezvous::exchange(). Collective, in this order. They throw Error{rendezvous} naming a rank that
  /// has gone.
  std::vector<std::string> exchange_rank_infos(std::string_view mine) { return exchange(first_round, mine); }
  std::vector<std::string> exchange_accesses(std::string_view mine) { return exchange(second_round, mine); }
  /// For ranks that find in the second round that not all can do what they agreed on; all of them, or none.
  std::vector<std::string> exchange_fallbacks(std::string_view mine) { return exchange(third_round, mine); }

  /// In place of the rounds: this rank cannot take part, for this reason, and the others fail with it instead of
  /// waiting.
  void decline(const Error& reason);

  /// All have met. The place stays taken while this rank's store is open.
  void complete();

 private:
  static constexpr std::string_view first_round = "rank_info";
  static constexpr std::string_view second_round = "access";
  static constexpr std::string_view third_round = "fallback";

  void find_attempt();
  bool all_have_left();
  bool take_place();
  bool clear_after_predecessor();
  LeaveActions leave_actions() const;
  void call_next_attempt();
  std::vector<std::string> exchange(std::string_view round, std::string_view mine);
  std::string departed(int rank);
  bool has_declined(int rank);
  Error went_too_early(int rank, std::string_view value);

  std::shared_ptr<Store> store_;
  int rank_;
  int size_;
  Deadline deadline_;
  std::string state_;  ///< the value of the key "rendezvous": size and attempt
  std::shared_ptr<Store> view_;
  std::string me_;
  bool present_ = false;
  bool complete_ = false;
};

}  // namespace tutti::rendezvous
