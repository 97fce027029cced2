#pragma once

// Shared by the parts of the checker; private to them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/check.h"
#include "algorithms/describe.h"
#include "algorithms/plan.h"

namespace tutti::algorithms::checking {

constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }

/// Where the number of a step or the index of something is expected.
inline constexpr std::uint32_t none = ~std::uint32_t{0};

/// Blocks [from, to) of a buffer.
struct Range {
  int from = 0;
  int to = 0;
  bool contains(int first, int count) const { return first >= from && first + count <= to; }
};

/// The plans under test and the rules of their collective.
struct World {
  World(Collective collective, std::span<const Plan> plans, Claims claims, const StepNames* names = nullptr);

  Collective collective;
  const detail::CollectiveTraits& traits;
  Claims claims;
  std::span<const Plan> plans;
  const StepNames* names;  ///< or null
  int ranks;
  int root;
  int pipeline;
  int blocks;                       ///< of input, and of output
  std::vector<std::uint32_t> base;  ///< number of each rank's first step when all steps of all ranks are numbered

  bool only_moves() const { return !traits.reduces() && collective != Collective::barrier; }
  bool runs_in_place() const { return traits.in_place == InPlace::allowed; }

  std::size_t steps() const { return base.back(); }
  std::uint32_t number(int rank, StepId step) const { return base[index(rank)] + step; }
  const Step& step(int rank, StepId id) const { return plans[index(rank)].steps[id]; }

  Range own_part(int rank) const { return {rank * pipeline, (rank + 1) * pipeline}; }
  /// The part of the buffer that exists at that rank if the collective does not run in place.
  Range present(int rank, Buffer buffer) const;
  /// Two blocks may hold the same data if these numbers are equal.
  int size_class(int rank, Buffer buffer, int block) const;
};

/// Collects problems as sentences, up to a limit.
class Problems {
 public:
  explicit Problems(const World& world) : world_(world) {}

  void problem(const std::string& text);
  void problem(int rank, const std::string& text);
  void problem(int rank, StepId step, const std::string& text);

  bool clean() const { return problems_.empty(); }
  std::size_t room() const { return most - problems_.size(); }
  bool full() const { return room() == 0; }
  std::vector<std::string> take() && { return std::move(problems_); }

 private:
  static constexpr std::size_t most = 20;

  const World& world_;
  std::vector<std::string> problems_;
};

/// "step 7 (send to 2)", and the same with its rank before it.
std::string step_text(const World& world, int rank, StepId step);
std::string where(const World& world, int rank, StepId step);

struct RankStep {
  int rank;
  StepId step;
};

/// One run of all plans: any other run that respects the order within the plans computes the same, if no steps race.
struct Run {
  std::vector<RankStep> order;         ///< all steps, as they complete
  std::vector<std::uint32_t> partner;  ///< by number: the receive of a send and vice versa
  int slots = 0;                       ///< messages per link that were needed
};

/// Each proves one property and relies on those above it.
void check_form(const World& world, Problems& report);                                   // check_form.cc
void check_matching(const World& world, Run& run, Problems& report);                     // check_order.cc
void check_progress(const World& world, Run& run, Problems& report);                     // check_order.cc
bool needs_room(const World& world);                                                     // check_order.cc
std::optional<int> slots_in_order(const World& world, const Run& run);                   // check_in_order.cc
std::size_t check_races(const World& world, const Run& run, Problems& report);           // check_races.cc
void check_values(const World& world, const Run& run, bool in_place, Problems& report);  // check_values.cc
void check_barrier(const World& world, const Run& run, Problems& report);                // check.cc

}  // namespace tutti::algorithms::checking
