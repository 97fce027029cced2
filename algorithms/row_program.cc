// Runs the plans of all ranks with rows of ranks in place of data: the ranks whose input a value contains, in the order
// in which they were added.

#include "algorithms/row_program.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <utility>

#include "algorithms/describe.h"
#include "algorithms/run_in_order.h"
#include "lib/base/index.h"

namespace tutti::algorithms {
namespace {

/// Block `block` of a value that contains the row of that number.
struct Value {
  int row = -1;
  int block = -1;
  friend bool operator==(const Value&, const Value&) = default;
};

class RowRun {
 public:
  explicit RowRun(std::span<const Plan> plans)
      : plans_(plans), blocks_(plans[0].shape.ranks * plans[0].shape.pipeline), ranks_(static_cast<int>(plans.size())) {
    for (const Plan& plan : plans) {
      const int rank = static_cast<int>(memory_.size());
      Memory& memory = memory_.emplace_back();
      for (int block = 0; block < blocks_; ++block) memory.input.push_back({row(-1, rank), block});
      memory.output.resize(at(blocks_));
      memory.scratch.resize(plan.scratch_like.size());
    }
  }

  RowLowering lower() {
    if (!execute()) return {std::nullopt, why_not_};
    const int root = plans_[0].shape.root;
    const Value all = memory_[at(root)].output[0];
    std::vector<int> row = ranks_of(all.row);
    const auto has_all = [&](int rank) {
      for (int block = 0; block < blocks_; ++block)
        if (memory_[at(rank)].output[at(block)] != Value{all.row, block}) return false;
      return true;
    };
    if (std::cmp_not_equal(row.size(), ranks_) || !has_all(root))
      return {std::nullopt, "does not pass all sums along one row of ranks"};
    bool is_spread = true;
    for (int rank = 0; rank < ranks_; ++rank) is_spread = is_spread && has_all(rank);
    if (!is_spread && row.back() != root) return {std::nullopt, "has its sum elsewhere than at the end of the row"};
    return {RowProgram{std::move(row), is_spread}, {}};
  }

 private:
  struct Memory {
    std::vector<Value> input, output, scratch;
  };

  /// The number of the row that ends with `rank` after those of row `before`.
  int row(int before, int rank) {
    const auto [found, is_new] = numbers_.try_emplace({before, rank}, static_cast<int>(rows_.size()));
    if (is_new) rows_.emplace_back(before, rank);
    return found->second;
  }

  std::vector<int> ranks_of(int row) const {
    std::vector<int> ranks;
    for (; row != -1; row = rows_[at(row)].first) ranks.push_back(rows_[at(row)].second);
    std::reverse(ranks.begin(), ranks.end());
    return ranks;
  }

  bool refuse(std::string why) {
    if (why_not_.empty()) why_not_ = std::move(why);
    return false;
  }

  std::span<Value> values(int rank, const Blocks& blocks) {
    Memory& memory = memory_[at(rank)];
    std::vector<Value>& buffer = blocks.buffer == Buffer::input    ? memory.input
                                 : blocks.buffer == Buffer::output ? memory.output
                                                                   : memory.scratch;
    return std::span{buffer}.subspan(at(blocks.first), at(blocks.count));
  }

  bool execute() {
    const Ran ran = run_in_order(
        plans_, [this](int rank, const Step& step) { return can_run(rank, step); },
        [this](int rank, const Step& step) { return execute(rank, step); });
    return ran == Ran::some ? refuse("waits for a message that is never sent") : ran == Ran::all;
  }

  bool can_run(int rank, const Step& step) { return !receives(step.verb) || !messages_[{step.peer, rank}].empty(); }

  bool execute(int rank, const Step& step) {
    if (step.verb == Verb::reduce) return refuse("adds what has already been received");
    std::vector<Value> made;
    if (reads_left(step.verb)) {
      const std::span<const Value> left = values(rank, step.left);
      made.assign(left.begin(), left.end());
    }
    if (step.verb == Verb::send) {
      messages_[{rank, step.peer}].push_back(std::move(made));
      return true;
    }
    if (receives(step.verb)) {
      std::deque<std::vector<Value>>& queue = messages_[{step.peer, rank}];
      std::vector<Value> message = std::move(queue.front());
      queue.pop_front();
      if (step.verb == Verb::recv) made = message;
      if (made.size() != message.size()) return refuse("cuts what it moves differently at the two ends");
      for (std::size_t i = 0; step.verb == Verb::recv_reduce && i < made.size(); ++i) {
        const bool is_own_block = made[i] == Value{row(-1, rank), message[i].block};
        if (!is_own_block) return refuse("adds more than its own input to what it receives");
        made[i].row = row(message[i].row, rank);
      }
    }
    const std::span<Value> to = values(rank, step.dst);
    if (to.size() != made.size()) return refuse("cuts what it moves differently at the two ends");
    std::copy(made.begin(), made.end(), to.begin());
    return true;
  }

  std::span<const Plan> plans_;
  int blocks_;
  int ranks_;
  std::string why_not_;
  std::vector<Memory> memory_;
  std::vector<std::pair<int, int>> rows_;  // the row before its last rank, and that rank
  std::map<std::pair<int, int>, int> numbers_;
  std::map<std::pair<int, int>, std::deque<std::vector<Value>>> messages_;  // by sender and receiver
};

}  // namespace

RowLowering lower_to_row(std::span<const Plan> plans) { return RowRun{plans}.lower(); }

}  // namespace tutti::algorithms
