// May two steps of one rank run at the same time and use one place, with at least one of them writing?
//
// Only waiting for completion orders two steps. The order of delivery on a link does not order its receives, although
// the second cannot end before the first: it is a promise about messages, not about memory, and a transport that writes
// two received messages side by side must not break a plan. A received answer to an earlier message does not order
// steps, either: that message has left, but its sender may not know it yet.
//
// Steps are examined in an order in which they can complete. Per place we keep the last writer and the readers since
// then. A step that reads must come after that writer; a step that writes must come after those readers, or after the
// writer if there are none. All other conflicts follow, since order is transitive. Input block b and output block b are
// one place if the collective may run in place.
//
// To decide whether a step comes after one that it does not wait for directly, a search goes back from it. If searches
// get long, as in a plan that is one long chain, the steps are cut into chains in which each step waits for the one
// before. Each step then stores how far along the longest chains it comes after, and one look answers the question.

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "algorithms/check_world.h"

namespace tutti::algorithms::checking {
namespace {

constexpr std::size_t most_chains = 64;        // chains for which each step has a number
constexpr std::size_t most_numbers = 1 << 26;  // numbers of all steps together (256 MiB)
constexpr std::size_t searched_per_step = 16;  // on average, before chains are used

class Races {
 public:
  Races(const World& world, int rank, std::vector<StepId> order, Problems& report)
      : world_(world), rank_(rank), plan_(world.plans[index(rank)]), order_(std::move(order)), report_(report) {
    const std::size_t vectors = world.runs_in_place() ? 1 : 2;
    output_at_ = (vectors - 1) * index(world.blocks);
    scratch_at_ = vectors * index(world.blocks);
    writer_.assign(scratch_at_ + plan_.scratch_like.size(), no_step);
    readers_.assign(writer_.size(), none);
    before_current_.assign(plan_.steps.size(), no_step);
    position_.resize(plan_.steps.size());
    for (std::uint32_t i = 0; i < order_.size(); ++i) position_[order_[i]] = i;
    list_predecessors();
  }

  /// Returns the number of steps that searches examined.
  std::size_t check() {
    for (const StepId id : order_) {
      if (report_.full()) break;
      current_ = id;
      reported_ = false;
      for (const StepId before : predecessors(id)) before_current_[before] = id;
      const Step& step = plan_.steps[id];
      if (reads_left(step.verb)) read(step.left);
      if (reads_right(step.verb)) read(step.right);
      if (writes_dst(step.verb)) write(step.dst);
    }
    return searched_;
  }

 private:
  struct Reader {
    StepId step;
    std::uint32_t next;
  };

  void list_predecessors() {
    predecessor_begin_.assign(plan_.steps.size() + 1, 0);
    for (StepId step = 0; step < plan_.steps.size(); ++step)
      predecessor_begin_[step + 1] = predecessor_begin_[step] + plan_.waits_for[step];
    predecessor_.resize(plan_.successor.size());
    std::vector<std::uint32_t> next(predecessor_begin_.begin(), predecessor_begin_.end() - 1);
    for (StepId step = 0; step < plan_.steps.size(); ++step)
      for (const StepId after : plan_.successors(step)) predecessor_[next[after]++] = step;
  }

  std::span<const StepId> predecessors(StepId step) const {
    return {predecessor_.data() + predecessor_begin_[step], predecessor_.data() + predecessor_begin_[step + 1]};
  }

  std::size_t first_place(const Blocks& blocks) const {
    const std::size_t at[] = {0, output_at_, scratch_at_};
    return at[static_cast<std::size_t>(blocks.buffer)] + index(blocks.first);
  }

  void read(const Blocks& blocks) {
    std::size_t place = first_place(blocks);
    for (int i = 0; i < blocks.count; ++i, ++place) {
      if (writer_[place] != no_step) expect_before(writer_[place], blocks, i);
      reader_pool_.push_back({current_, readers_[place]});
      readers_[place] = static_cast<std::uint32_t>(reader_pool_.size() - 1);
    }
  }

  void write(const Blocks& blocks) {
    std::size_t place = first_place(blocks);
    for (int i = 0; i < blocks.count; ++i, ++place) {
      if (readers_[place] == none && writer_[place] != no_step) expect_before(writer_[place], blocks, i);
      for (std::uint32_t at = readers_[place]; at != none; at = reader_pool_[at].next)
        if (reader_pool_[at].step != current_) expect_before(reader_pool_[at].step, blocks, i);
      readers_[place] = none;
      writer_[place] = current_;
    }
  }

  void expect_before(StepId other, const Blocks& blocks, int i) {
    if (before_current_[other] == current_ || reported_) return;
    if (reaches_current(other)) return;
    reported_ = true;
    report_.problem(rank_, current_,
                    "races with " + step_text(world_, rank_, other) + " for " +
                        to_string({blocks.buffer, blocks.first + i, 1}) + ": neither waits for the other");
  }

  /// For steps that are not direct predecessors: marks all steps before the current one, back to where `other`
  /// completes.
  bool reaches_current(StepId other) {
    if (searched_ > searched_per_step * plan_.steps.size() && chain_of_.empty()) cut_into_chains();
    if (!chain_of_.empty() && chain_of_[other] < chains_)
      return after_[current_ * chains_ + chain_of_[other]] > at_[other];
    stack_.assign(1, current_);
    visited_.resize(plan_.steps.size(), no_step);
    ++search_;
    while (!stack_.empty()) {
      const StepId at = stack_.back();
      stack_.pop_back();
      for (const StepId before : predecessors(at)) {
        ++searched_;
        if (position_[before] < position_[other] || visited_[before] == search_) continue;
        visited_[before] = search_;
        before_current_[before] = current_;
        stack_.push_back(before);
      }
    }
    return before_current_[other] == current_;
  }

  /// Each step extends the chain of a step that it waits for, if that is the last of its chain.
  void cut_into_chains() {
    chain_of_.assign(plan_.steps.size(), none);
    at_.assign(plan_.steps.size(), 0);
    std::vector<std::uint32_t> lengths;
    for (const StepId id : order_) {
      for (const StepId before : predecessors(id))
        if (at_[before] + 1 == lengths[chain_of_[before]]) chain_of_[id] = chain_of_[before];
      if (chain_of_[id] == none) {
        chain_of_[id] = static_cast<std::uint32_t>(lengths.size());
        lengths.push_back(0);
      }
      at_[id] = lengths[chain_of_[id]]++;
    }
    // The longest chains come first.
    std::vector<std::uint32_t> by_length(lengths.size()), number(lengths.size());
    std::iota(by_length.begin(), by_length.end(), 0);
    std::stable_sort(by_length.begin(), by_length.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return lengths[a] > lengths[b]; });
    for (std::uint32_t i = 0; i < by_length.size(); ++i) number[by_length[i]] = i;
    for (std::uint32_t& chain : chain_of_) chain = number[chain];
    chains_ = std::min({most_chains, lengths.size(), std::max<std::size_t>(1, most_numbers / plan_.steps.size())});
    learn_chains();
  }

  void learn_chains() {
    after_.assign(plan_.steps.size() * chains_, 0);
    for (const StepId id : order_)
      for (const StepId before : predecessors(id)) {
        for (std::size_t chain = 0; chain < chains_; ++chain)
          after_[id * chains_ + chain] = std::max(after_[id * chains_ + chain], after_[before * chains_ + chain]);
        if (chain_of_[before] < chains_) {
          std::uint32_t& after = after_[id * chains_ + chain_of_[before]];
          after = std::max(after, at_[before] + 1);
        }
      }
  }

  const World& world_;
  const int rank_;
  const Plan& plan_;
  const std::vector<StepId> order_;  // as the steps complete
  Problems& report_;
  std::size_t output_at_ = 0;  // places: the vector, then output if it is apart, then scratch
  std::size_t scratch_at_ = 0;
  std::vector<StepId> writer_;          // per place
  std::vector<std::uint32_t> readers_;  // per place: head of a list in reader_pool_
  std::vector<Reader> reader_pool_;
  std::vector<std::uint32_t> position_;  // per step: in order_
  std::vector<StepId> before_current_;   // per step: equal to current_ if known to complete before it starts
  std::vector<std::uint32_t> predecessor_begin_;
  std::vector<StepId> predecessor_;
  std::vector<StepId> stack_;
  std::vector<std::uint32_t> visited_;
  std::uint32_t search_ = 0;
  std::size_t searched_ = 0;
  std::vector<std::uint32_t> chain_of_;  // per step; empty until searches are long
  std::vector<std::uint32_t> at_;        // per step: how many of its chain come before it
  std::size_t chains_ = 0;               // the longest ones, for which each step has a number
  std::vector<std::uint32_t> after_;     // per step and chain: how many steps of the chain come before it
  StepId current_ = no_step;
  bool reported_ = false;
};

}  // namespace

std::size_t check_races(const World& world, const Run& run, Problems& report) {
  std::vector<std::vector<StepId>> order(index(world.ranks));
  for (int rank = 0; rank < world.ranks; ++rank) order[index(rank)].reserve(world.plans[index(rank)].steps.size());
  for (const RankStep& at : run.order) order[index(at.rank)].push_back(at.step);
  std::size_t searched = 0;
  for (int rank = 0; rank < world.ranks && !report.full(); ++rank)
    searched += Races{world, rank, std::move(order[index(rank)]), report}.check();
  return searched;
}

}  // namespace tutti::algorithms::checking
