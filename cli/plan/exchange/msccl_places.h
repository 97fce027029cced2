#pragma once

// Where a foreign program's chunks lie in a plan; see msccl_places.cc.

#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/check.h"
#include "cli/plan/exchange/msccl_chunks.h"
#include "cli/plan/exchange/msccl_order.h"

namespace tutti::cli::exchange {

/// A program's collective and how its chunks are cut into the blocks of plans.
struct Cut {
  Collective collective{};
  algorithms::Shape shape;  ///< rank 0's
  int chunks = 1;           ///< of the whole vector
  int blocks_per_chunk = 1;
  bool aliased = false;  ///< input and output are one memory to the program
  bool mended = false;   ///< it was made for separate ones only, and is made right for one memory too

  detail::InPlace in_place() const { return detail::traits_of(collective).in_place; }
  int blocks() const { return shape.ranks * shape.pipeline; }
  algorithms::Shape shape_of(int rank) const;
  Chunks chunks_of(int rank) const { return {collective, shape_of(rank)}; }
  /// Throws Error{invalid_argument} where the numbers make no sense.
  static Cut of(const MscclProgram& program);
};

/// One block of what an instruction touches: a place of the plan.
struct Spot {
  algorithms::Buffer buffer = algorithms::Buffer::output;
  int block = 0;  ///< in scratch: key of a slot, to be looked up when all are known
};

/// The memory of one rank while its instructions are looked at one after the other.
class Places {
 public:
  Places(const MscclProgram& program, const Cut& cut, int rank);

  /// Before anything else, all that the rank does, in order.
  void announce(const Atom& atom);

  /// Where it reads, and the numbers of the blocks that it finds there. Throws where nothing has been put.
  std::vector<Spot> read(const Atom& atom, const ChunkRange& range, std::vector<int>& numbers);
  /// Where it writes blocks of those numbers.
  std::vector<Spot> write(const Atom& atom, const ChunkRange& range, const std::vector<int>& numbers);

  /// When all is looked at: numbers the slots. `slot_of` then finds them.
  void number_slots();
  int slot_of(int key) const { return slots_.at(static_cast<std::size_t>(key)); }
  const std::vector<int>& scratch_like() const { return scratch_like_; }

  /// Input blocks that must be put aside first, with the slots they go to.
  const std::map<int, int>& aside() const { return aside_; }
  /// Result blocks that nothing writes since they lie there already, if input and output are one.
  std::vector<int> never_moved() const;

 private:
  /// 'i', 'o', 's' or 't', its number, and for 't' which part; where input and output are one, both are 'i'.
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
  std::map<Place, int> holds_;                 // what has been written there: number of a block
  std::map<std::pair<Place, int>, int> keys_;  // place and like -> key
  std::vector<std::pair<Place, int>> by_key_;
  std::vector<int> slots_;  // per key
  std::vector<int> scratch_like_;
  std::map<int, int> aside_;  // block -> key
};

}  // namespace tutti::cli::exchange
