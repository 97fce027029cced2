#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/collective_traits.h"

namespace tutti::algorithms {

/// The input of an algorithm. It has no elements, bytes or types: one plan serves every message.
struct Shape {
  int rank = 0;
  int ranks = 1;
  int root = 0;
  int pipeline = 1;  ///< pieces per part: how finely an algorithm may overlap its steps
  int radix = 2;     ///< fan-out of trees, size of groups
  /// By rank: its group, in place of groups of `radix` neighbours. Groups are numbered by their first ranks. Empty:
  /// none are given.
  std::vector<int> domains = {};
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

/// The memory of a plan. `input` and `output` are cut into `ranks * pipeline` blocks. If a collective runs in place,
/// block b of the one is at the same place as block b of the other; a plan must be right in both cases. A rank that
/// holds only its own part of a buffer (all_gather's input, say) still uses the global block numbers.
enum class Buffer : std::uint8_t { input, output, scratch };

/// `count` consecutive blocks from `first` on. In `scratch` blocks are slots from the builder.
struct Blocks {
  Buffer buffer = Buffer::output;
  int first = 0;
  int count = 0;
  friend bool operator==(const Blocks&, const Blocks&) = default;
};

enum class Verb : std::uint8_t {
  send,         ///< left -> peer
  recv,         ///< peer -> dst
  recv_reduce,  ///< dst = left op (what peer sent); left may be dst
  copy,         ///< dst = left
  reduce,       ///< dst = left op right; left may be dst
};

struct Step {
  Verb verb = Verb::copy;
  int peer = -1;
  Blocks dst{};
  Blocks left{};
  Blocks right{};
};

using StepId = std::uint32_t;
inline constexpr StepId no_step = ~StepId{0};

enum class Direction : std::uint8_t { out, in };

/// The steps that use one direction of the link to one peer, in issue order.
struct Lane {
  int peer = -1;
  Direction direction = Direction::out;
  StepId first = no_step;
  std::uint32_t count = 0;
};

/// What one rank does in one collective, as data: the engine runs it, the checker proves it.
///
/// The order is part of the plan and was derived by the builder. Step s may start once `waits_for[s]` steps that list
/// it as a successor are complete and its predecessor on its lane has been issued. (That one need not be complete:
/// several messages to one peer may be in flight.)
struct Plan {
  Shape shape{};
  std::vector<Step> steps;
  std::vector<std::uint32_t> waits_for;        // per step: how many steps must complete first
  std::vector<std::uint32_t> successor_begin;  // steps + 1 offsets into `successor`
  std::vector<StepId> successor;
  std::vector<StepId> next_on_lane;    // per step: the next one of its lane, or no_step
  std::vector<std::uint32_t> lane_of;  // per step: index into `lanes`; unspecified for local steps
  std::vector<Lane> lanes;
  std::vector<int> scratch_like;  // per scratch slot: the block whose size it has

  std::span<const StepId> successors(StepId step) const {
    return {successor.data() + successor_begin[step], successor.data() + successor_begin[step + 1]};
  }
};

using detail::InPlace;

/// Collects steps in an order in which executing them one after the other is right, and derives which of them may
/// overlap.
///
/// A step must wait for the last writer of the places that it uses and, if it writes, for the readers since then. Input
/// block b and output block b count as one place, since they are one in place. Ranges may run past the last block of
/// input or output and then wrap around. Such a message is sent as two, and its other end must be cut there, too. Empty
/// ranges and copies onto themselves add nothing.
class PlanBuilder {
 public:
  explicit PlanBuilder(const Shape& shape, InPlace in_place = InPlace::allowed);

  void send(int peer, Blocks blocks);
  void recv(int peer, Blocks blocks);
  void recv_reduce(int peer, Blocks blocks) { recv_reduce(peer, blocks, blocks); }
  /// dst = own op incoming: saves the copy with which an out-of-place reduction would begin.
  void recv_reduce(int peer, Blocks dst, Blocks own);
  void copy(Blocks dst, Blocks src);
  void reduce(Blocks dst, Blocks left, Blocks right);
  /// The same for a step that is there already.
  void add(Step step);

  /// New scratch slots, as large as those blocks.
  Blocks scratch(Blocks like);

  Plan build() &&;

 private:
  /// A step that has read a place since it was last written, and the one before it in the same list.
  struct Reader {
    StepId step;
    std::uint32_t next;
  };
  struct Edge {
    StepId before;
    StepId after;
  };

  void append(const Step& step);
  void join_lane(StepId step, int peer, Direction direction);
  void join_places();
  void read(StepId step, const Blocks& blocks);
  void write(StepId step, const Blocks& blocks);
  void wait(StepId step, StepId for_step);
  std::size_t first_block(const Blocks& blocks) const;

  Plan plan_;
  std::size_t blocks_;  // of input, and of output
  InPlace in_place_;
  std::vector<std::uint32_t> place_of_;  // per block, and after the last: which place it belongs to
  std::vector<StepId> writer_;           // per place: last one
  std::vector<std::uint32_t> readers_;   // per place: head of a list in reader_pool_
  std::vector<Reader> reader_pool_;
  std::vector<StepId> waited_by_;  // per step: the last step that was told to wait for it
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> lane_index_;  // per peer and direction
  std::vector<StepId> lane_last_;          // per lane
};

}  // namespace tutti::algorithms
