#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "algorithms/plan.h"
#include "algorithms/stream_units.h"
#include "tutti/types.h"

namespace tutti::algorithms {

/// Pieces, copies and areas begin at multiples of that many elements, for the widest loads.
inline constexpr std::size_t aligned_elements = 64;

/// Where an operand of a command lies. Offsets count elements; those of input and output begin at block 0, also at a
/// rank that holds only its own part.
struct StreamPlace {
  enum class Area : std::uint8_t {
    input,
    output,
    scratch,
    incoming,  ///< a slot of the link from `peer`, in this rank's memory
    outgoing,  ///< a slot of the link to `peer`, in that rank's memory
    // They belong to `peer`, which may be this rank, and hold elements, never sums.
    peer_input,
    peer_output,
    staging,  ///< where that rank has copies of its buffers for the others
  };
  Area area = Area::scratch;
  int peer = -1;
  std::uint32_t slot = 0;
  std::size_t offset = 0;
  friend bool operator==(const StreamPlace&, const StreamPlace&) = default;
};

/// A command on the stream of one rank. The commands of a stream run one after the other. Waits look at this rank's own
/// memory, and signals write to the peer's.
struct StreamCommand {
  enum class Kind : std::uint8_t {
    wait_arrival,    ///< until `value` messages of the peer have arrived
    wait_credit,     ///< until the peer has freed the slots of `value` messages
    signal_arrival,  ///< the peer has `value` messages of this rank
    signal_credit,   ///< this rank has freed the slots of `value` messages
    copy,            ///< each output = the source
    fold,            ///< each output = the left fold of the sources, which may be any of them
    scale,           ///< output = contribution of the source's elements
    divide,          ///< output = average of the source, a sum
    whole,           ///< each output = the result for the elements of the sources, all three of the above in one
  };
  Kind kind = Kind::copy;
  std::uint8_t sources = 0;
  std::uint8_t outputs = 0;
  int peer = -1;
  StepId step = no_step;    ///< of the plan
  std::uint64_t value = 0;  ///< of a counter that both ends keep for as long as the link exists
  std::size_t elements = 0;
  std::size_t first = 0;  ///< in StreamCommands::places: the sources, then the outputs
  friend bool operator==(const StreamCommand&, const StreamCommand&) = default;
};

struct StreamCommands {
  /// Some commands that follow each other: signals and waits, one for data, and again signals and waits.
  struct Part {
    std::size_t begin = 0;
    std::size_t end = 0;
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::vector<StreamCommand> all;
  std::vector<StreamPlace> places;
  /// Parts that one kernel may run, which signals and waits itself, in this order. Other ranks see no difference.
  std::vector<Part> in_kernels{};

  std::span<const StreamPlace> sources(const StreamCommand& command) const {
    return std::span{places}.subspan(command.first, command.sources);
  }
  std::span<const StreamPlace> outputs(const StreamCommand& command) const {
    return std::span{places}.subspan(command.first + command.sources, command.outputs);
  }
  void clear() {
    all.clear();
    places.clear();
    in_kernels.clear();
  }
};

/// How many messages this rank has sent to each peer, and received from it, in all calls. Message m uses slot m mod K.
struct StreamCounters {
  explicit StreamCounters(int ranks)
      : sent(static_cast<std::size_t>(ranks), 0), received(static_cast<std::size_t>(ranks), 0) {}
  std::vector<std::uint64_t> sent;
  std::vector<std::uint64_t> received;
};

/// Where the blocks of a call begin, and where the last one ends, in elements.
struct StreamSizes {
  std::vector<std::size_t> input;
  std::vector<std::size_t> output;
};

/// The slots of each link. They are the same on all ranks.
struct StreamSlots {
  std::size_t elements = 0;  ///< that fit into one; of the size of sums
  std::uint32_t count = 1;
};

/// What a call does to its elements before and after the plan. Whatever is made before lies in scratch.
struct StreamStages {
  enum class Input : std::uint8_t {
    direct,  ///< the plan reads the input
    copied,  ///< a copy of the input, which the plan would overwrite before it is read
    scaled,  ///< contributions made of the input: premultiplied, or those of an average
  };
  Input input = Input::direct;
  bool divides = false;     ///< sums become averages
  bool sums_apart = false;  ///< those sums are larger than elements, and do not fit into the output
  bool in_place = false;    ///< input and output are the same memory
};

/// One call as commands on this rank's stream, round by round: the steps of the plan in the order of their list. That
/// this ends with as many slots as Verdict::in_order says is proved for messages that fit into a slot, and pieces are
/// cut so that they do. A message without elements is left out at both ends.
class StreamProgram {
 public:
  /// Plan, units and sizes must outlive it. Throws Error{invalid_argument} if a slot cannot hold an element of each
  /// unit of a message.
  StreamProgram(Collective collective, const Plan& plan, const StreamUnits& units, const StreamSizes& sizes,
                const StreamStages& stages, const StreamSlots& slots);

  std::size_t rounds() const { return rounds_; }
  /// Elements of the largest piece of a unit.
  std::size_t piece() const { return piece_; }
  /// Elements that all rounds need; a round leaves nothing behind for the next.
  std::size_t scratch() const { return scratch_; }
  /// Adds the commands of one round. Rounds are asked for in their order, with the counters of all calls.
  void add_round(std::size_t round, StreamCounters& counters, StreamCommands& to) const;

 private:
  class Round;

  /// Offsets in scratch of the units of some blocks, by block; set only where a unit begins.
  using Layout = std::vector<std::size_t>;

  std::size_t size_of(const Blocks& unit) const;
  std::size_t piece_of(const Blocks& unit, std::size_t round) const;
  Layout lay_out(Blocks blocks);
  Blocks held(Buffer buffer) const;

  const Collective collective_;
  const Plan& plan_;
  const StreamUnits& units_;
  const StreamSizes& sizes_;
  const StreamStages stages_;
  const StreamSlots slots_;
  std::size_t piece_ = 0;
  std::size_t rounds_ = 0;
  std::size_t scratch_ = 0;
  Layout scratch_at_;
  Layout staged_at_;
  Layout sums_at_;
};

/// "wait_arrival", "fold" ...
const char* name_of(StreamCommand::Kind kind);
/// "fold output[0..63] = input[0..63], slot 1 from 3 [0..63]".
std::string to_string(const StreamCommands& commands, const StreamCommand& command);

}  // namespace tutti::algorithms
