#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/plan.h"

namespace tutti::algorithms {

/// What one rank does when a plan runs on a board (transport/memory/board.h): messages become rounds. In each round a
/// rank posts once all that others read, waits for the posts that it reads, and computes results from those and from
/// its own data.
///
/// It is derived from the plans of all ranks. A message that depends on no other belongs to the first round, and one
/// that depends on messages of round k to round k + 1. A chain of recv_reduce steps becomes one fold in the same order.
///
/// A plan by domains may sum what comes in one round before another one comes. A rank keeps such a sum in its scratch:
/// areas that are each as large as the vector, with its blocks. Block b of area k has the number k * blocks + b, where
/// `blocks` is the number of blocks of the vector.
struct BoardProgram {
  /// A part of a rank's contribution to a round. A rank may take its own part from its original place as well.
  struct Source {
    int rank = 0;
    Blocks blocks{};
    int range = no_range;  ///< its range of the contribution; no_range: this rank's own part, not posted
    int unit = 0;          ///< its number among the units of the contribution
    friend bool operator==(const Source&, const Source&) = default;
  };
  static constexpr int no_range = -1;

  /// dst = the left fold of `count` sources from `first` on, in that order; with one source it is a copy.
  struct Result {
    Blocks dst{};
    int first = 0;
    int count = 0;
    friend bool operator==(const Result&, const Result&) = default;
  };

  /// Consecutive units make a range. The ranges, all of one buffer, follow each other.
  struct Contribution {
    std::vector<Blocks> ranges;
    int units = 0;
    friend bool operator==(const Contribution&, const Contribution&) = default;
  };

  /// The part of this rank's contribution that another rank reads.
  struct Reading {
    int reader = 0;
    Blocks blocks{};
    friend bool operator==(const Reading&, const Reading&) = default;
  };

  struct Round {
    std::vector<Contribution> contributions;  ///< by rank
    std::vector<int> awaited;                 ///< the ranks whose posts this rank waits for
    std::vector<Result> results;              ///< first those that copy this rank's own data
    int own_copies = 0;                       ///< which wait for no other rank
    std::vector<Source> sources;              ///< of the results
    std::vector<Reading> readings;            ///< of this rank's contribution by other ranks
    int contributors = 0;                     ///< ranks that contribute anything,
    int first_contributor = -1;               ///< and the lowest of them; -1: there is none
    int most_units = 0;                       ///< the most that one rank contributes
    int unit_blocks = 0;                      ///< blocks of each contributed unit
    bool same_blocks = false;                 ///< all contributing ranks contribute the same blocks,
    bool same_parts = false;                  ///< or equally many whole parts
    /// This rank reads posts of others, and others read its own.
    bool exchanges() const { return !awaited.empty() && !readings.empty(); }
    friend bool operator==(const Round&, const Round&) = default;
  };

  int rank = 0;
  std::vector<Round> rounds;
  bool rank_order = true;  ///< each fold of every rank is in the order of ranks
  bool by_domains = false;
  int scratch_areas = 0;  ///< of this rank

  /// There is one round, and no sum depends on which rank computes it. Such a program gains from a board at any size.
  bool is_simple() const { return rounds.size() == 1 && rank_order; }
  bool awaits(int peer) const;
  friend bool operator==(const BoardProgram&, const BoardProgram&) = default;
};

/// The programs of all ranks, or why the plans cannot run on a board, as the end of a sentence that begins with "it".
struct Lowering {
  std::vector<BoardProgram> programs;  ///< by rank; empty: they cannot
  std::string why_not;
};

inline constexpr int most_board_rounds = 2;
/// The same for plans by domains, enough for eight of them.
inline constexpr int most_rounds_by_domains = 6;

/// `plans` has those of all ranks. Every rank that asks gets the same answer.
Lowering lower_to_board(std::span<const Plan> plans);
/// The plans of all ranks that `choice` builds; `shape` is that of any of them.
std::vector<Plan> plans_of_all(const Choice& choice, const Shape& shape);

/// Whether `reader` reads anything of `writer` when the algorithm of that name runs on a board; for writers of traces,
/// whose records of tiny calls have only the name, and may be damaged. Remembers its answers, since calls of several
/// kinds alternate in a program.
class BoardReaders {
 public:
  bool operator()(Collective collective, const std::string& algorithm, int ranks, int root, int reader, int writer);

 private:
  struct Key {
    Collective collective{};
    std::string algorithm;
    int ranks = 0;
    int root = 0;
    auto operator<=>(const Key&) const = default;
  };
  using Answers = std::vector<std::vector<bool>>;  ///< by reader and writer; empty: no
  static Answers answers(const Key& key);

  std::map<Key, Answers> known_;
};

}  // namespace tutti::algorithms
