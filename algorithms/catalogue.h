#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/plan.h"
#include "tutti/types.h"

namespace tutti::algorithms {

using Builder = Plan (*)(const Shape&);

struct Entry {
  Collective collective;
  std::string_view name;
  Builder build;
  bool has_radix = false;       ///< "name:4" chooses it
  bool has_domains = false;     ///< "name:3+1" does: groups of ranks that are near each other
  bool has_pipeline = false;    ///< gains from Shape::pipeline > 1
  bool has_slices = false;      ///< the pipeline cuts the whole vector, not each rank's part of it
  bool equal_parts = false;     ///< needs parts of equal size: not for _v calls
  bool rank_order = false;      ///< reduces every block at one rank as the left fold in rank order
  bool mesh = false;            ///< all ranks exchange messages themselves, at once, so that it runs on a board
  bool in_row = false;          ///< passes sums along a row of ranks, so that it runs on a board
  bool shared_buffers = false;  ///< is used if ranks can read and write each other's buffers
  std::string_view idea = {};   ///< one line for people
};

/// All algorithms. Tests, benchmark, simulator and viewer iterate over it.
std::span<const Entry> catalogue();
std::span<const Entry> catalogue(Collective collective);
/// The algorithm for ranks that can read and write each other's buffers; null: there is none.
const Entry* find_for_shared_buffers(Collective collective);

/// An entry with its parameters: "ring", "tree:4" (radix 4), "chain*8" (pipeline 8), "tree:4*8", "ring/64K" (a pipeline
/// deep enough for messages of at most 64 KiB), "hierarchical:3+1" (domains of three neighbours and of one),
/// "hierarchical:0.2+1.3" (domains of ranks 0 and 2, and of 1 and 3).
struct Choice {
  const Entry* entry = nullptr;
  int radix = 2;
  int pipeline = 1;
  std::vector<int> domains = {};  ///< see Shape
  bool pipeline_given = false;
  std::size_t message = 0;  ///< bytes; 0: the pipeline is that of `pipeline`
};

/// With the pipeline for a vector of `bytes` bytes: a power of two if the choice has a message size.
Choice settled(Choice choice, int ranks, std::size_t bytes);

/// The shape of a rank's plan. Throws Error{invalid_argument} if the choice does not suit that many ranks.
Shape shape_of(const Choice& choice, int rank, int ranks, int root);
/// How many steps the plan of that shape has, told without building it if its pipeline is long: it may take gigabytes.
std::size_t count_steps(const Entry& entry, Shape shape);
/// Whether the choice can serve that many ranks: if it has domains, these have as many.
bool suits(const Choice& choice, int ranks);

/// Parses such a name. Throws Error{invalid_argument} that offers the nearest name and lists the others.
Choice find(Collective collective, std::string_view name);
std::string to_string(const Choice& choice);

/// The collective with that name ("all_reduce"); offers the nearest one otherwise.
Collective find_collective(std::string_view name);

}  // namespace tutti::algorithms
