#pragma once

// Finds the sources of the outputs of plans: the first half of lowering plans to a board. Private to it.

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/plan.h"
#include "lib/base/index.h"

namespace tutti::algorithms::lowering {

constexpr int nothing = -1;

/// Consecutive units [first, end).
struct Units {
  int first = 0;
  int end = 0;
  int count() const { return end - first; }
};

/// Cuts the vector wherever a step's range begins or ends. A unit is a run of blocks that each step uses either
/// completely or not at all. A vector that is only moved as a whole is one unit, whatever the number of ranks.
class Cuts {
 public:
  explicit Cuts(int blocks) : begins_(at(blocks) + 1, 0) {}
  void mark(const Blocks& blocks);
  void finish();

  int units() const { return static_cast<int>(firsts_.size()) - 1; }
  Units units(const Blocks& blocks) const { return {unit_[at(blocks.first)], unit_[at(blocks.first + blocks.count)]}; }
  Blocks blocks(Buffer buffer, int unit) const { return {buffer, firsts_[at(unit)], size(unit)}; }
  int size(int unit) const { return firsts_[at(unit + 1)] - firsts_[at(unit)]; }

 private:
  std::vector<char> begins_;  // per block, and after the last
  std::vector<int> firsts_;   // per unit, and after the last: its first block
  std::vector<int> unit_;     // per block, and after the last
};

/// A unit in the memory of a rank.
struct UnitPlace {
  int rank = 0;
  Buffer buffer{};
  int unit = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the comparison with 0 for one with a pointer
  friend auto operator<=>(const UnitPlace&, const UnitPlace&) = default;
};

/// One source of a value, combined after those of `before`.
struct Term {
  int before = nothing;
  UnitPlace from{};
  int round = nothing;  ///< round in which it is posted; nothing: this rank's own, taken from its place
};

/// A value that a rank computes from messages, and keeps because a later round needs it.
struct Kept {
  UnitPlace place{};
  std::vector<Term> terms{};
  int round = 0;  ///< at whose end it is computed
};

/// The contents of a unit: the last of its terms, and the rounds that must be over before it is complete.
struct Value {
  int term = nothing;
  int ready = 0;
};

/// Runs the plans of all ranks. In place of data it uses lists of the sources that a value consists of, in the order in
/// which they are combined.
///
/// Data that a rank has from the start can be posted in round 0, and data made from messages of round k in round k + 1.
/// The number of rounds is therefore the number of messages on the longest path.
class SourceRun {
 public:
  explicit SourceRun(std::span<const Plan> plans);

  /// False: `why_not()`.
  bool execute();
  const std::string& why_not() const { return why_not_; }
  bool refuse(std::string why);

  int ranks() const { return ranks_; }
  const Cuts& cuts() const { return cuts_; }
  /// The blocks of a unit, in scratch as BoardProgram numbers them.
  Blocks blocks(const UnitPlace& place) const;
  bool by_domains() const { return !plans_[0].shape.domains.empty(); }
  int scratch_areas(int rank) const { return scratch_areas_[at(rank)]; }
  /// In the order in which they are computed.
  std::span<const Kept> kept() const { return kept_; }
  /// The sources of an output unit, in order; none: nothing was written there.
  std::vector<Term> sources(int rank, int unit) const;
  int ready(int rank, int unit) const { return memory_[at(rank)].output[at(unit)].ready; }
  /// Calls `message` for each message between two ranks, with its source and the round in which it is posted.
  template <class Message>
  void for_each_message(Message&& message) const {
    for (int from = 0; from < ranks_; ++from)
      for (int to = 0; to < ranks_; ++to)
        for (const auto& values : lanes_[at(from) * at(ranks_) + at(to)].messages)
          for (const Value& sent : values) message(to, terms_[at(sent.term)].from, terms_[at(sent.term)].round);
  }

 private:
  struct Memory {
    std::vector<Value> input, output, scratch;
  };
  struct Lane {
    std::vector<std::vector<Value>> messages;
    std::size_t received = 0;
  };

  void cut();
  const Cuts& cuts(int rank, Buffer buffer) const {
    return buffer == Buffer::scratch ? scratch_cuts_[at(rank)] : cuts_;
  }
  Units units(int rank, const Blocks& blocks) const { return cuts(rank, blocks.buffer).units(blocks); }
  Value& value(const UnitPlace& place);
  Value read(const UnitPlace& place);
  int add_term(int before, const UnitPlace& from, int round);
  Lane& lane(int from, int to) { return lanes_[at(from) * at(ranks_) + at(to)]; }
  bool can_run(int rank, const Step& step);
  bool execute(int rank, const Step& step);
  bool send(int rank, const Step& step);
  bool operand(int rank, const Blocks& blocks, const Step& step, int i, UnitPlace& where, Value& found);
  bool combine(Value& left, const Value& right);
  bool lay_out_scratch(int rank);
  std::vector<Term> terms_of(int last) const;
  bool is_own(const Value& value) const {
    return terms_[at(value.term)].before == nothing && terms_[at(value.term)].round == nothing;
  }
  /// Makes a value that was computed from messages a source of its own, where it is.
  void keep(const UnitPlace& where, Value& held);
  int free_round(const UnitPlace& place, int round);
  bool is_overwritten(const UnitPlace& where, const Value& sent);
  bool cut_differently() { return refuse("cuts what it moves differently at the two ends"); }

  std::span<const Plan> plans_;
  int ranks_;
  std::string why_not_;
  Cuts cuts_;
  std::vector<Cuts> scratch_cuts_;
  std::vector<std::vector<Blocks>> scratch_blocks_;  // by rank and unit
  std::vector<int> scratch_areas_;                   // by rank
  std::vector<Kept> kept_;
  std::vector<std::map<int, UnitPlace>> posts_;  // of plans by domains, by rank and round
  std::vector<Memory> memory_;
  std::vector<Lane> lanes_;
  std::vector<Term> terms_;
  std::vector<std::pair<UnitPlace, Value>> sent_;  // those that were not there from the start
};

}  // namespace tutti::algorithms::lowering
