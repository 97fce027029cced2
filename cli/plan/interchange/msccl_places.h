#pragma once

// Where the chunks of a foreign program are in a plan; see msccl_places.cc.

#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/check.h"
#include "cli/plan/interchange/msccl_chunks.h"
#include "cli/plan/interchange/msccl_order.h"

namespace tutti::cli::interchange {

/// A program's collective, and how its chunks are cut into the blocks of plans.
struct Cut {
  Collective collective{};
  algorithms::Shape shape;  ///< rank 0's
  int chunks = 1;           ///< of the whole vector
  int blocks_per_chunk = 1;
  bool aliased = false;  ///< input and output are one memory to the program
  bool mended = false;   ///< the program was made for separate memory only, and is made right for shared memory, too

  detail::InPlace in_place() const { return detail::traits_of(collective).in_place; }
  int blocks() const { return shape.ranks * shape.pipeline; }
  algorithms::Shape shape_of(int rank) const;
  Chunks chunks_of(int rank) const { return {collective, shape_of(rank)}; }
  /// Throws Error{invalid_argument} if the numbers are inconsistent.
  static Cut of(const MscclProgram& program);
};

/// One block that an instruction uses: a place of the plan.
struct Spot {
  algorithms::Buffer buffer = algorithms::Buffer::output;
  int block = 0;  ///< in scratch: key of a slot, to be looked up at the end
};

/// The memory of one rank while its instructions are processed one after the other.
class Places {
 public:
  Places(const MscclProgram& program, const Cut& cut, int rank);

  /// Must be called first with all instructions of the rank, in order.
  void announce(const Atom& atom);

  /// Where it reads, and the numbers of the blocks found there. Throws if a place was never written.
  std::vector<Spot> read(const Atom& atom, const ChunkRange& range, std::vector<int>& numbers);
  /// Where it writes blocks of those numbers.
  std::vector<Spot> write(const Atom& atom, const ChunkRange& range, const std::vector<int>& numbers);

  /// Call it at the end: numbers the slots. `slot_of` then finds them.
  void number_slots();
  int slot_of(int key) const { return slots_.at(static_cast<std::size_t>(key)); }
  const std::vector<int>& scratch_like() const { return scratch_like_; }

  /// Input blocks that must be copied to scratch first, with their slots.
  const std::map<int, int>& aside() const { return aside_; }
  /// Result blocks that no step writes, since they are in place already if input and output are one.
  std::vector<int> never_moved() const;

 private:
  /// 'i', 'o', 's' or 't', its number, and for 't' which part; if input and output are one, both are 'i'.
  using Place = std::tuple<char, int, int>;

  Place place_of(const Atom& atom, const ChunkRange& range, int i) const;
  bool has(algorithms::Buffer buffer, int block) const;
  int number_at(const Place& place) const;
  Spot spot_of(const Place& place, int number, bool writes);
  Spot slot(const Place& place, int like);
  bool is_put_aside(int block) const;
  bool starts_with_input(int block) const;

  const MscclProgram& program_;
  const Cut& cut_;
  const int rank_;
  const Chunks chunks_;
  std::map<Place, int> first_write_;  // when, counted in atoms
  std::map<Place, int> last_read_;
  int announced_ = 0;
  std::map<Place, int> holds_;                 // number of the block written there
  std::map<std::pair<Place, int>, int> keys_;  // place and like -> key
  std::vector<std::pair<Place, int>> by_key_;
  std::vector<int> slots_;  // per key
  std::vector<int> scratch_like_;
  std::map<int, int> aside_;  // block -> key
};

}  // namespace tutti::cli::interchange
