#pragma once

// Runs plans on sets of contributions instead of data. From this the checker sees whether the results are right, and
// the replay what each rank holds at each moment. Private to them.

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "algorithms/check_world.h"

namespace tutti::algorithms::checking {

using SetId = std::uint32_t;
constexpr SetId undefined = 0;
constexpr SetId broken = 1;  // an error that has been reported
constexpr SetId twice = 2;   // results of combining that must be reported
constexpr SetId disordered = 3;
constexpr SetId first_rank = 4;  // then {0}, {1}, ...

/// Which orders of combining are accepted.
enum class FoldOrder : std::uint8_t { any, rank_order, left_fold };

/// Sets of ranks, numbered in the order in which they are first made. Two with one number have been combined in the
/// same way, so that sums of floating-point numbers have the same bits; a + b is b + a there, unless order matters.
class Sets {
 public:
  Sets(int ranks, FoldOrder order);

  SetId of(int rank) const { return first_rank + static_cast<SetId>(rank); }

  SetId combine(SetId left, SetId right) {
    if (order_ == FoldOrder::any && right < left) std::swap(left, right);
    if (left == last_left_ && right == last_right_) return last_;
    last_left_ = left;
    last_right_ = right;
    SetId& known = table_[std::uint64_t{left} << 32 | right];
    if (known == undefined) known = combine_afresh(left, right);
    return last_ = known;
  }

  /// It is {0, 1, ... count - 1}, combined in rank order unless these are all.
  bool is_first(SetId set, int count) const;
  std::size_t count(SetId set) const;
  bool holds(SetId set, int rank) const { return (bits_[set * words_ + index(rank) / 64] >> (rank % 64) & 1) != 0; }

 private:
  SetId combine_afresh(SetId left, SetId right);

  std::size_t ranks_;
  std::size_t words_;  // per set
  FoldOrder order_;
  std::vector<std::uint64_t> bits_;
  /// Ranks [from, to), combined in their order; to is 0 where they were not.
  struct Span {
    std::size_t from;
    std::size_t to;
  };
  std::vector<Span> spans_;  // per set
  std::unordered_map<std::uint64_t, SetId> table_;
  SetId last_left_ = undefined, last_right_ = undefined, last_ = undefined;
};

/// The contents of a place.
struct Value {
  int block = 0;
  SetId set = undefined;
};

/// The block of that number of a rank.
struct Contribution {
  int rank;
  int block;
  bool operator==(const Contribution&) const = default;
};

/// A block of output with a wrong result.
struct WrongResult {
  int rank;
  int block;
  std::string text;
  std::optional<Contribution> missing{};
  bool is_first_of_several = false;  ///< of several missing contributions
};

/// Adds to the texts which steps lost the missing contributions. In a large run only a few are explained, since each
/// explanation examines the whole run.
void explain_losses(const World& world, const Run& run, bool in_place,
                    std::vector<WrongResult>& results);  // check_lost.cc

class Interpreter {
 public:
  Interpreter(const World& world, const Run& run, bool in_place, Problems& report);

  /// Runs sends before their receives, and each step after those that it waits for. All such orders have the same
  /// result.
  void execute(RankStep at);
  /// Compares all outputs with the promise of the collective.
  void check_results();

  /// All places of a rank: input, output unless in place, scratch.
  std::span<const Value> memory(int rank) const;
  std::span<const Value> look(int rank, const Blocks& blocks) { return {find(rank, blocks), index(blocks.count)}; }
  const Sets& sets() const { return sets_; }

 private:
  std::size_t output_at() const { return in_place_ ? 0 : index(world_.blocks); }
  std::size_t scratch_at() const { return output_at() + index(world_.blocks); }
  Value* find(int rank, const Blocks& blocks) {
    const std::size_t at[] = {0, output_at(), scratch_at()};
    return memory_.data() + memory_at_[index(rank)] + at[static_cast<std::size_t>(blocks.buffer)] + index(blocks.first);
  }

  void fill_input(int rank);
  void execute(const Step& step);
  void send(const Step& step);
  void receive(const Step& step);
  Value defined(Value value, const Blocks& blocks, int i);
  Value combine(Value left, Value right, const Blocks& dst, int i);
  std::optional<WrongResult> wrong_result(int rank, int block);
  /// Ranks of an all_reduce end with the same bits.
  void compare_with_first(int rank);

  void problem(const std::string& text);
  const char* mode() const { return in_place_ ? " (in place)" : ""; }
  template <class Predicate>
  std::string list_ranks(Predicate wanted) const;
  std::string ranks_of(SetId set) const;
  std::string ranks_in_both(SetId a, SetId b) const;

  /// The origin of the data of an output block that was only moved.
  Contribution origin(int rank, int block) const;

  const World& world_;
  const Run& run_;
  const bool in_place_;
  Problems& report_;
  Sets sets_;
  std::vector<std::size_t> memory_at_;  // per rank, and the end
  std::vector<Value> memory_;
  std::vector<std::uint32_t> message_of_;  // per send
  std::vector<std::vector<Value>> messages_;
  std::vector<std::uint32_t> free_messages_;
  RankStep at_{0, 0};
  bool reported_ = false;  // one problem per step is enough
};

}  // namespace tutti::algorithms::checking
