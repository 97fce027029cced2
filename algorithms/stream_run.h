#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "algorithms/stream_program.h"
#include "algorithms/stream_races.h"

namespace tutti::algorithms {

/// The memory of one rank in one call.
struct StreamMemory {
  struct Part {
    std::byte* data = nullptr;  ///< where element `first` lies
    std::size_t first = 0;
    std::size_t elements = 0;
    std::size_t element_size = 1;
  };
  Part input;
  Part output;
  Part scratch;
};

/// What commands compute. The output may be any of the sources.
struct StreamArithmetic {
  std::size_t sum_size = 1;  ///< of the elements in slots
  std::function<void(std::byte* to, std::span<const std::byte* const> sources, std::size_t elements)> fold;
  std::function<void(std::byte* to, const std::byte* from, std::size_t elements)> scale;
  std::function<void(std::byte* to, const std::byte* from, std::size_t elements)> divide;
  std::function<void(std::byte* to, std::span<const std::byte* const> sources, std::size_t elements)> whole;
};

struct StreamCounts {
  std::size_t commands = 0;
  std::size_t waits = 0;
  std::size_t signals = 0;
  std::size_t elements_read = 0;
  std::size_t elements_written = 0;
  std::size_t elements_sent = 0;  ///< written into memory of peers

  void add(const StreamCommands& commands, const StreamCommand& command);
};

/// Which stream goes on when several can.
struct StreamOrder {
  enum class Kind : std::uint8_t {
    in_turn,    ///< a command each, from rank 0 on
    backwards,  ///< a command each, from the last rank on
    one_first,  ///< rank `number` as far as it can go, then those after it
    random,     ///< `number` is the seed
  };
  Kind kind = Kind::in_turn;
  unsigned number = 0;
};

/// Runs the streams of all ranks on real bytes, command by command, in any order that waits and signals allow. It
/// trusts nothing that only happens to be so: what a rank reads must be ordered by a wait of that rank, and what it
/// overwrites, too. A slot that is freed is filled with garbage. All accesses to buffers and staging areas are looked
/// at for races.
class StreamMachine {
 public:
  StreamMachine(int ranks, const StreamSlots& slots, StreamArithmetic arithmetic);

  /// Gives each rank a staging area. `element_size`: of buffers. In call k ranks use the memory of others that these
  /// have in call k, which their programs write before the call and after it.
  void share(std::size_t elements, std::size_t element_size);

  /// Puts commands at the end of a rank's stream. Both must live until run() returns.
  void enqueue(int rank, const StreamCommands& commands, const StreamMemory& memory);
  /// Runs the streams to their ends. Returns what went wrong, or nothing.
  std::string run(const StreamOrder& order);
  const StreamCounts& counts() const { return counts_; }

 private:
  struct Segment {
    const StreamCommands* commands;
    const StreamMemory* memory;
  };
  struct Stream {
    std::vector<Segment> segments;
    std::size_t segment = 0;
    std::size_t command = 0;
  };
  /// What a command reads or writes. Sums may be wider than the elements of buffers.
  struct Operand {
    std::byte* bytes = nullptr;
    std::size_t element_size = 0;
  };
  /// The link from one rank to another. All four count messages.
  struct Link {
    std::vector<std::byte> slots;
    std::uint64_t arrived = 0;  ///< signalled by the sender
    std::uint64_t freed = 0;    ///< signalled by the receiver
    std::uint64_t awaited = 0;  ///< arrivals for which the receiver has waited
    std::uint64_t allowed = 0;  ///< credits for which the sender has waited
  };

  Link& link(int from, int to) {
    return links_[static_cast<std::size_t>(from) * streams_.size() + static_cast<std::size_t>(to)];
  }
  std::size_t slot_bytes() const { return slots_.elements * arithmetic_.sum_size; }
  const StreamCommand* next(int rank);
  bool is_blocked(int rank, const StreamCommand& command);
  std::optional<int> choose(const StreamOrder& order);
  std::string execute(int rank, const StreamCommand& command);
  std::string signal(int rank, const StreamCommand& command);
  std::string compute(int rank, const StreamCommand& command);
  std::size_t word(int from, int to, bool is_credit) const;
  std::size_t width(const StreamCommands& commands, const StreamCommand& command) const;
  std::string look_at(int rank, const StreamPlace& place, const Operand& operand, std::size_t elements, bool writes);
  std::string program_writes(int rank);
  std::string find(int rank, const StreamPlace& place, std::size_t elements, Operand& operand);
  std::string find_at_peer(int rank, const StreamPlace& place, const StreamMemory*& memory);
  std::string find_in_slot(int rank, const StreamPlace& place, std::size_t elements, Operand& operand);
  std::string where(int rank, const StreamCommand& command) const;
  std::string deadlock();
  std::string left_over();

  const StreamSlots slots_;
  const StreamArithmetic arithmetic_;
  std::vector<Stream> streams_;
  std::vector<Link> links_;
  StreamRaces races_;
  std::vector<std::vector<std::byte>> staging_;  // by rank
  std::size_t element_size_;
  StreamCounts counts_;
  std::mt19937 random_;
  int last_ = -1;
};

}  // namespace tutti::algorithms
