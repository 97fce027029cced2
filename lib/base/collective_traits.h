#pragma once

#include <cstdint>
#include <iterator>

#include "tutti/types.h"

// The properties of each collective, a row each. All that follows from them is derived: which calls are refused, how
// buffers are cut, what the checker demands of plans, lower bounds, bandwidths, names.

namespace tutti::detail {

/// The part of a call's data that a buffer holds.
enum class Extent : std::uint8_t {
  nothing,
  whole,     ///< a vector
  parts,     ///< a vector that consists of a part per rank
  own_part,  ///< of those the part of the rank whose buffer it is
};

/// Which ranks have a buffer.
enum class Holders : std::uint8_t { all, root, all_but_first };

struct BufferTraits {
  Extent extent = Extent::nothing;
  Holders holders = Holders::all;

  constexpr bool is_at(int rank, int root) const {
    if (extent == Extent::nothing) return false;
    return holders == Holders::all || (holders == Holders::root ? rank == root : rank > 0);
  }
};

/// The ranks whose contributions a result combines.
enum class Fold : std::uint8_t { none, all, up_to_self, before_self };

/// Whether a plan must be right if input and output are the same memory.
enum class InPlace : std::uint8_t {
  allowed,  ///< there, and where they are not
  never,    ///< a call in place is given a copy of its input
  always,   ///< there is one buffer, which plans call output
};

struct CollectiveTraits {
  Collective collective;
  const char* name;
  const char* purpose;  ///< for people
  BufferTraits input{};
  BufferTraits output{};
  Fold fold = Fold::none;
  InPlace in_place = InPlace::allowed;

  constexpr bool reduces() const { return fold != Fold::none; }
  /// Results differ by rank: each combines the contributions of earlier ranks, in their order.
  constexpr bool is_scan() const { return fold == Fold::up_to_self || fold == Fold::before_self; }
  constexpr bool is_rooted() const { return input.holders == Holders::root || output.holders == Holders::root; }
  /// An average is over all ranks.
  constexpr bool takes(OpKind op) const { return reduces() && (op != OpKind::avg || !is_scan()); }
  /// There is a part per rank, and a _v call may give them different sizes.
  constexpr bool has_parts() const { return gathers() || scatters() || exchanges(); }
  /// Parts become a vector of them,
  constexpr bool gathers() const { return input.extent == Extent::own_part; }
  /// a vector of them becomes parts,
  constexpr bool scatters() const { return output.extent == Extent::own_part; }
  /// or another vector of them.
  constexpr bool exchanges() const { return input.extent == Extent::parts && output.extent == Extent::parts; }
  /// The result at `rank` combines the contributions of ranks 0 to that number minus one.
  constexpr int folded(int rank, int ranks) const {
    return fold == Fold::all ? ranks : fold == Fold::up_to_self ? rank + 1 : fold == Fold::before_self ? rank : 0;
  }
};

/// In the order of their numbers.
inline constexpr CollectiveTraits collective_traits[] = {
    {.collective = Collective::all_reduce,
     .name = "all_reduce",
     .purpose = "Every rank brings a vector; in the end every rank has the sum of all of them.",
     .input = {Extent::whole},
     .output = {Extent::whole},
     .fold = Fold::all},
    {.collective = Collective::reduce,
     .name = "reduce",
     .purpose = "Every rank brings a vector; in the end the root has the sum of all of them.",
     .input = {Extent::whole},
     .output = {Extent::whole, Holders::root},
     .fold = Fold::all},
    {.collective = Collective::broadcast,
     .name = "broadcast",
     .purpose = "The root has a vector; in the end every rank has it.",
     .input = {Extent::whole, Holders::root},
     .output = {Extent::whole},
     .in_place = InPlace::always},
    {.collective = Collective::all_gather,
     .name = "all_gather",
     .purpose = "Every rank brings one part of a vector; in the end every rank has all parts.",
     .input = {Extent::own_part},
     .output = {Extent::parts}},
    {.collective = Collective::reduce_scatter,
     .name = "reduce_scatter",
     .purpose = "Every rank brings a vector; in the end each has its own part of the sum of all of them.",
     .input = {Extent::parts},
     .output = {Extent::own_part},
     .fold = Fold::all},
    {.collective = Collective::scatter,
     .name = "scatter",
     .purpose = "The root has a vector; in the end every rank has its own part of it.",
     .input = {Extent::parts, Holders::root},
     .output = {Extent::own_part}},
    {.collective = Collective::gather,
     .name = "gather",
     .purpose = "Every rank brings one part of a vector; in the end the root has all parts.",
     .input = {Extent::own_part},
     .output = {Extent::parts, Holders::root}},
    {.collective = Collective::all_to_all,
     .name = "all_to_all",
     .purpose = "Every rank brings a part for each of the others; in the end each has what the others brought for it.",
     .input = {Extent::parts},
     .output = {Extent::parts},
     .in_place = InPlace::never},
    {.collective = Collective::barrier,
     .name = "barrier",
     .purpose = "Nobody goes on before all have come: in the end every rank knows of everybody's arrival."},
    {.collective = Collective::scan,
     .name = "scan",
     .purpose = "Every rank brings a vector; in the end each has the sum of its own and those of all ranks before it.",
     .input = {Extent::whole},
     .output = {Extent::whole},
     .fold = Fold::up_to_self},
    {.collective = Collective::exclusive_scan,
     .name = "exclusive_scan",
     .purpose =
         "Every rank brings a vector; in the end each but the first has the sum of those of all ranks before it.",
     .input = {Extent::whole},
     .output = {Extent::whole, Holders::all_but_first},
     .fold = Fold::before_self},
};
static_assert(std::size(collective_traits) == collective_count);

constexpr const CollectiveTraits& traits_of(Collective collective) {
  return collective_traits[static_cast<std::size_t>(collective)];
}

/// True for the collectives that take an op.
constexpr bool is_reduction(Collective collective) { return traits_of(collective).reduces(); }
/// True for the collectives with a root.
constexpr bool is_rooted(Collective collective) { return traits_of(collective).is_rooted(); }

static_assert([] {
  for (int number = 0; number < collective_count; ++number)
    if (static_cast<int>(collective_traits[number].collective) != number) return false;
  return true;
}());

}  // namespace tutti::detail
