// Proves every algorithm of the catalogue: a new one is covered by being there.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "algorithms/catalogue.h"
#include "algorithms/check.h"
#include "algorithms/select.h"
#include "lib/base/collective_traits.h"
#include "tests/algorithms/hand_made.h"
#include "tests/support/sample.h"

namespace tutti::algorithms::testing {
namespace {

using enum Collective;

using tutti::testing::Lot;

/// Every number of ranks that is tried exhaustively. What a sanitizer finds in the checker it finds with few.
int most_ranks() { return tutti::testing::only_a_sanitized_sample() ? 20 : 64; }
/// Up to that many ranks all shapes are always tried. A sample of the others is tried.
constexpr int few_ranks = 8;

void prove(const Entry& entry, const Shape& shape, std::size_t& proved) {
  const Verdict verdict = check(entry, shape.ranks, shape.root, shape.pipeline, shape.radix);
  ++proved;
  CHECK_FALSE(verdict.needs_room);
  CHECK(verdict.in_order == std::min<int>(1, static_cast<int>(verdict.messages)));
  if (verdict.ok()) return;
  FAIL_CHECK(name_of(entry.collective), " ", std::string(entry.name), " with ", shape.ranks, " ranks, root ",
             shape.root, ", pipeline ", shape.pipeline, ", radix ", shape.radix, ":\n", problems(verdict));
}

TEST_CASE("every algorithm without a root is right for 1 to 64 ranks") {
  std::size_t proved = 0;
  Lot lot{2, 8};
  for (const Entry& entry : catalogue())
    for (int ranks = 1; ranks <= most_ranks(); ++ranks)
      if (!detail::is_rooted(entry.collective) && (ranks <= few_ranks || lot.draws())) prove(entry, {0, ranks}, proved);
  std::printf("%zu shapes proved, 1 to %d ranks\n", proved, most_ranks());
}

void prove_for_every_root(Collective collective) {
  std::size_t proved = 0;
  Lot lot{8, 16};
  for (const Entry& entry : catalogue(collective))
    for (int ranks = 1; ranks <= most_ranks(); ++ranks)
      for (int root = 0; root < ranks; ++root)
        if (ranks <= few_ranks || lot.draws()) prove(entry, {0, ranks, root}, proved);
  std::printf("%zu shapes proved, %s, 1 to %d ranks, every root\n", proved, name_of(collective), most_ranks());
}

TEST_CASE("every algorithm with a root is right for 1 to 64 ranks and every root") {
  for (const detail::CollectiveTraits& traits : detail::collective_traits)
    if (traits.is_rooted()) prove_for_every_root(traits.collective);
}

TEST_CASE("every algorithm is right with pipelines and radices, also those it does not ask for") {
  std::size_t proved = 0;
  Lot lot{2, 64};
  for (const Entry& entry : catalogue())
    for (int ranks = 1; ranks <= 17; ++ranks)
      for (const int pipeline : {1, 2, 3, 5})
        for (const int radix : {2, 3, 4, 5, 8})
          for (const int root : {0, ranks / 2, ranks - 1})
            if ((entry.has_radix || radix == 2) && (detail::is_rooted(entry.collective) || root == 0) &&
                (ranks <= 4 || lot.draws()))
              prove(entry, {0, ranks, root, pipeline, radix}, proved);
  std::printf("%zu shapes proved, with pipelines and radices\n", proved);
}

/// Blocks that all plans touch together, roughly.
std::size_t weight(const Entry& entry, const Shape& shape) {
  const Plan plan = entry.build(shape);
  std::size_t blocks = plan.scratch_like.size();
  for (const Step& step : plan.steps) blocks += static_cast<std::size_t>(step.dst.count + step.left.count);
  return blocks * static_cast<std::size_t>(shape.ranks);
}

/// Proves what the table chooses, in as many slices as calls of that size have, each shape once. Where the size
/// decides how many, those that would take long are proved in fewer.
class Choices {
 public:
  void prove(const Situation& situation) {
    const int ranks = situation.ranks;
    const Choice chosen = TuningTable::builtin().select(situation);
    const Choice choice = settled(chosen, ranks, situation.bytes);
    if (!is_new(choice, ranks) || (ranks > few_ranks && !lot_.draws())) return;
    Shape shape{0, ranks, ranks / 2, choice.pipeline, choice.radix};
    if (chosen.message > 0) {
      while (shape.pipeline > 1 && weight(*choice.entry, shape) > most_weight()) shape.pipeline /= 2;
      if (shape.pipeline < choice.pipeline && !is_new({choice.entry, choice.radix, shape.pipeline}, ranks)) return;
      most_slices_ = std::max(most_slices_, shape.pipeline);
    }
    testing::prove(*choice.entry, shape, proved_);
  }
  std::size_t proved() const { return proved_; }
  int most_slices() const { return most_slices_; }  ///< where the size decides how many

 private:
  static std::size_t most_weight() { return tutti::testing::only_a_sanitized_sample() ? 20'000 : 60'000; }
  bool is_new(const Choice& choice, int ranks) {
    return seen_.emplace(choice.entry->collective, to_string(choice), ranks).second;
  }

  std::set<std::tuple<Collective, std::string, int>> seen_;
  Lot lot_{1, 12};
  std::size_t proved_ = 0;
  int most_slices_ = 0;
};

TEST_CASE("every choice of the built-in tuning table is right, in as many slices as it has") {
  Choices choices;
  for (int which = 0; which < collective_count; ++which)
    for (const int ranks : {2, 3, 5, 8, 9, 17, 24, 33})
      for (const char* transport : {"tcp", "shm", "inproc"})
        for (std::size_t bytes = 1; bytes <= std::size_t{1} << 32; bytes *= 4)
          for (const bool crowded : {false, true})
            for (const bool rank_order : {false, true})
              choices.prove({static_cast<Collective>(which), ranks, bytes, transport, crowded, true, rank_order});
  for (int which = 0; which < collective_count; ++which)
    for (int ranks = 4; ranks <= 64; ++ranks)
      for (int on_each = 2; on_each <= ranks / 2; ++on_each)
        for (std::size_t bytes = 1; bytes <= std::size_t{1} << 28; bytes *= 64)
          for (const bool crowded : {false, true}) {
            if (ranks % on_each != 0) continue;
            Situation situation{
                .collective = static_cast<Collective>(which), .ranks = ranks, .bytes = bytes, .transport = "hosts"};
            situation.ranks_on_each_host = on_each;
            situation.oversubscribed = crowded;
            choices.prove(situation);
          }
  CHECK(choices.most_slices() >= 64);
  std::printf("%zu shapes proved, chosen by the tuning table, in up to %d slices\n", choices.proved(),
              choices.most_slices());
}

TEST_CASE("every algorithm is right for random shapes of up to 300 ranks") {
  std::size_t proved = 0;
  int largest = 0;
  std::mt19937 random(tutti::testing::sample_seed(2024));
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>{from, to}(random); };
  Lot lot{6, 60};
  for (const Entry& entry : catalogue())
    for (int i = 0; i < 6; ++i) {
      if (!lot.draws()) continue;
      Shape shape{0, draw(65, 300), 0, draw(1, 3), draw(2, 8)};
      while (weight(entry, shape) > 1'000'000) shape.pipeline > 1 ? --shape.pipeline : shape.ranks -= shape.ranks / 6;
      if (detail::is_rooted(entry.collective)) shape.root = draw(0, shape.ranks - 1);
      largest = std::max(largest, shape.ranks);
      prove(entry, shape, proved);
    }
  std::printf("%zu shapes proved, up to %d ranks\n", proved, largest);
}

}  // namespace
}  // namespace tutti::algorithms::testing
