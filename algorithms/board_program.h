#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/plan.h"

namespace tutti::algorithms {

/// What one rank does with a plan on a board (transport/memory/board.h): in place of messages there are rounds. In each
/// of them a rank posts once whatever others read, waits for the posts that it reads, and computes results from those
/// and from its own data.
///
/// It is read off the plans of all ranks. A message that depends on no other belongs to the first round, and one that
/// depends on messages of round k to round k + 1. A chain of recv_reduce steps becomes one fold in the same order.
struct BoardProgram {
  /// A part of what one rank contributes to a round. A rank's own part it may also take from where it came from.
  struct Source {
    int rank = 0;
    Blocks blocks{};
    int range = no_range;  ///< of the contribution, the one that has it; no_range: not posted, it is this rank's own
    int unit = 0;          ///< its number among the units of the contribution
    friend bool operator==(const Source&, const Source&) = default;
  };
  static constexpr int no_range = -1;

  /// dst = the left fold of `count` sources from `first` on, in that order; of one source it is a copy.
  struct Result {
    Blocks dst{};
    int first = 0;
    int count = 0;
    friend bool operator==(const Result&, const Result&) = default;
  };

  /// Consecutive units make a range; the ranges, all of one buffer, follow each other.
  struct Contribution {
    std::vector<Blocks> ranges;
    int units = 0;
    friend bool operator==(const Contribution&, const Contribution&) = default;
  };

  /// What another rank reads of this rank's contribution.
  struct Reading {
    int reader = 0;
    Blocks blocks{};
    friend bool operator==(const Reading&, const Reading&) = default;
  };

  struct Round {
    std::vector<Contribution> contributions;  ///< by rank
    std::vector<int> awaited;                 ///< the ranks whose posts this rank waits for
    std::vector<Result> results;
    std::vector<Source> sources;    ///< of the results
    std::vector<Reading> readings;  ///< others', of this rank's contribution
    int first_contributor = -1;     ///< the lowest rank that contributes anything; -1: none does
    int most_units = 0;             ///< that one rank contributes
    int unit_blocks = 0;            ///< of every unit that is contributed
    bool same_blocks = false;       ///< every rank that contributes anything contributes the same blocks,
    bool same_parts = false;        ///< or as many whole parts as the others
    friend bool operator==(const Round&, const Round&) = default;
  };

  int rank = 0;
  std::vector<Round> rounds;
  bool rank_order = true;  ///< each fold of every rank is in the order of ranks

  /// One round, and no sum depends on who computes it: it gains from a board at any size.
  bool is_simple() const { return rounds.size() == 1 && rank_order; }
  bool awaits(int peer) const;
  friend bool operator==(const BoardProgram&, const BoardProgram&) = default;
};

/// What all ranks do, or why the plans cannot be put on a board, as the end of a sentence that begins with "it".
struct Lowering {
  std::vector<BoardProgram> programs;  ///< by rank; empty: they cannot
  std::string why_not;
};

inline constexpr int most_board_rounds = 2;

/// `plans`: of all ranks. Every rank that asks gets the same answer.
Lowering lower_to_board(std::span<const Plan> plans);
/// The plans of all ranks that `choice` builds; `shape`: of one of them.
std::vector<Plan> plans_of_all(const Choice& choice, const Shape& shape);

/// Whether anything of `writer` is read by `reader` when the algorithm of that name runs on a board; for readers of
/// traces, who know the name only. Remembers the last algorithm.
class BoardReaders {
 public:
  bool operator()(Collective collective, const std::string& algorithm, int ranks, int root, int reader, int writer);

 private:
  struct Key {
    Collective collective{};
    std::string algorithm;
    int ranks = 0;
    int root = 0;
    bool operator==(const Key&) const = default;
  };
  std::optional<Key> key_;
  std::vector<BoardProgram> programs_;
};

}  // namespace tutti::algorithms
