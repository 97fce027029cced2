// The list of algorithms: what it holds, and how names are read.

#include "algorithms/catalogue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/algorithms/entries.h"
#include "tests/algorithms/lockstep.h"
#include "tests/support/sample.h"
#include "tests/support/text.h"
#include "tutti/error.h"
#include "tutti/types.h"

namespace tutti::algorithms {
namespace {

using tutti::testing::contains;

std::vector<Collective> all_collectives() {
  std::vector<Collective> found;
  for (int i = 0; i < collective_count; ++i) found.push_back(static_cast<Collective>(i));
  return found;
}

/// The message of the error that the name causes, or nothing.
std::string complaint(Collective collective, const std::string& name) {
  try {
    (void)find(collective, name);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return {};
}

TEST_CASE("no plan needs the network to store a message") {
  tutti::testing::Lot lot{1, 6};
  for (const Entry& entry : catalogue())
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 32, 33})
      for (const int pipeline : {1, 3}) {
        if (ranks > 4 && !lot.draws()) continue;
        CAPTURE(std::string{entry.name});
        CAPTURE(std::string{name_of(entry.collective)});
        CAPTURE(ranks);
        CAPTURE(pipeline);
        const std::vector<Plan> plans = testing::build_all(entry, {0, ranks, ranks / 3, pipeline});
        REQUIRE(testing::Lockstep{plans}.steps_left() == 0);
      }
}

TEST_CASE("the steps of a plan are counted without building it") {
  tutti::testing::Lot lot{1, 6};
  for (const Entry& entry : catalogue())
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33})
      for (const int radix : {2, 3, 8})
        for (const int pipeline : {1, 2, 3, 6}) {
          if (ranks > 4 && !lot.draws()) continue;
          CAPTURE(std::string{entry.name});
          CAPTURE(std::string{name_of(entry.collective)});
          CAPTURE(ranks);
          CAPTURE(radix);
          CAPTURE(pipeline);
          for (const int rank : {0, ranks / 3, ranks - 1}) {
            const Shape shape{.rank = rank, .ranks = ranks, .root = ranks / 3, .pipeline = pipeline, .radix = radix};
            CHECK(count_steps(entry, shape) == entry.build(shape).steps.size());
          }
        }
}

TEST_CASE("every collective has a choice of algorithms") {
  for (const Collective collective : all_collectives()) {
    CAPTURE(std::string{name_of(collective)});
    CHECK(catalogue(collective).size() >= 2);
    std::set<std::string_view> names;
    for (const Entry& entry : catalogue(collective)) {
      CHECK(entry.collective == collective);
      CHECK_FALSE(entry.idea.empty());
      names.insert(entry.name);
    }
    CHECK(names.size() == catalogue(collective).size());
  }
  CHECK(catalogue(Collective::all_reduce).size() >= 6);
}

TEST_CASE("the lines of a collective stand together, so that none is overlooked") {
  std::size_t lines = 0;
  for (const Collective collective : all_collectives()) lines += catalogue(collective).size();
  CHECK(lines == catalogue().size());
}

TEST_CASE("every reducing collective can keep the order of the ranks, no other claims to") {
  for (const Collective collective : all_collectives()) {
    CAPTURE(std::string{name_of(collective)});
    const auto lines = catalogue(collective);
    const bool any = std::any_of(lines.begin(), lines.end(), [](const Entry& entry) { return entry.rank_order; });
    CHECK(any == detail::is_reduction(collective));
  }
}

TEST_CASE("the first line of a collective serves every call") {
  for (const Collective collective : all_collectives()) CHECK_FALSE(catalogue(collective).front().equal_parts);
}

TEST_CASE("a single rank sends nothing and copies at most its input") {
  for (const Entry& entry : catalogue()) {
    CAPTURE(std::string{entry.name});
    CAPTURE(std::string{name_of(entry.collective)});
    const Plan plan = entry.build({.rank = 0, .ranks = 1, .pipeline = 3});
    CHECK(plan.lanes.empty());
    const detail::CollectiveTraits& traits = detail::traits_of(entry.collective);
    const bool moves = traits.in_place != detail::InPlace::always && traits.output.is_at(0, 0);
    CHECK(plan.steps.empty() != moves);
  }
}

TEST_CASE("every algorithm with a radix uses it, every one with a pipeline sends more messages for it") {
  for (const Entry& entry : catalogue()) {
    CAPTURE(std::string{entry.name});
    CAPTURE(std::string{name_of(entry.collective)});
    const Shape shape{.rank = 0, .ranks = 9};
    Shape wide = shape;
    wide.radix = 9;
    Shape fine = shape;
    fine.pipeline = 4;
    CHECK((entry.build(wide).lanes.size() != entry.build(shape).lanes.size()) == entry.has_radix);
    CHECK((entry.build(fine).steps.size() > entry.build(shape).steps.size()) == entry.has_pipeline);
  }
}

TEST_CASE("a name may carry a radix and a pipeline") {
  const Choice plain = find(Collective::broadcast, "tree");
  CHECK(plain.radix == 2);
  CHECK(plain.pipeline == 1);
  CHECK_FALSE(plain.pipeline_given);
  const Choice full = find(Collective::broadcast, "tree:4*8");
  CHECK(full.entry->name == "tree");
  CHECK(full.entry->collective == Collective::broadcast);
  CHECK(full.radix == 4);
  CHECK(full.pipeline == 8);
  CHECK(full.pipeline_given);
  CHECK(to_string(full) == "tree:4*8");
  CHECK(to_string(find(Collective::all_reduce, "ring*16")) == "ring*16");
  CHECK(find(Collective::all_reduce, "ring*1").pipeline_given);
}

TEST_CASE("a name may say how large messages may be, and the pipeline follows from the size of the vector") {
  const Choice ring = find(Collective::all_reduce, "ring/64K");
  CHECK(ring.message == 65536);
  CHECK(ring.pipeline_given);
  CHECK(to_string(ring) == "ring/64K");
  CHECK(to_string(find(Collective::broadcast, "tree:4/2M")) == "tree:4/2M");
  CHECK(to_string(find(Collective::broadcast, "chain/1000")) == "chain/1000");

  const std::size_t mib = 1 << 20;
  CHECK(to_string(settled(ring, 4, 0)) == "ring");
  CHECK(to_string(settled(ring, 4, mib / 4)) == "ring");  // a part is a message
  CHECK(to_string(settled(ring, 4, mib / 4 + 4)) == "ring*2");
  CHECK(to_string(settled(ring, 4, 3 * mib)) == "ring*16");  // a power of two, so that few plans serve all sizes
  CHECK(to_string(settled(ring, 2, mib << 20)) == "ring*4096");
  CHECK(to_string(settled(find(Collective::broadcast, "chain/64K"), 4, mib)) == "chain*16");  // slices of the whole
  CHECK(to_string(settled(find(Collective::all_reduce, "ring*3"), 4, mib)) == "ring*3");
}

TEST_CASE("a choice is written as it is read") {
  for (const Entry& entry : catalogue()) {
    const Choice choice{.entry = &entry, .radix = entry.has_radix ? 5 : 2, .pipeline = entry.has_pipeline ? 7 : 1};
    const Choice again = find(entry.collective, to_string(choice));
    CHECK(again.entry == choice.entry);
    CHECK(again.radix == choice.radix);
    CHECK(again.pipeline == choice.pipeline);
  }
}

TEST_CASE("an unknown name is answered with the nearest one and the list") {
  const std::string text = complaint(Collective::all_reduce, "rnig");
  CHECK(contains(text, "\"rnig\" for all_reduce"));
  CHECK(contains(text, "Did you mean \"ring\"?"));
  CHECK(contains(text, "double_binary_tree"));
  CHECK_FALSE(contains(text, "bruck"));
  CHECK(contains(complaint(Collective::all_reduce, "bruck"), "There is no algorithm"));
  CHECK_FALSE(contains(complaint(Collective::all_reduce, "nonsense"), "Did you mean"));
}

TEST_CASE("parameters that make no sense are refused with the reason") {
  struct Case {
    Collective collective;
    const char* name;
    const char* reason;
  };
  for (const Case& wrong : std::vector<Case>{
           {Collective::broadcast, "tree:1", "radix after ':' must be a number from 2"},
           {Collective::broadcast, "tree:", "radix after ':' must be a number"},
           {Collective::broadcast, "tree:-4", "not \"-4\""},
           {Collective::broadcast, "tree:4x", "not \"4x\""},
           {Collective::broadcast, "tree:99999999999", "not \"99999999999\""},
           {Collective::broadcast, "chain*0", "pipeline after '*' must be a number from 1"},
           {Collective::broadcast, "chain*", "pipeline after '*' must be a number"},
           {Collective::broadcast, "chain*100000", "to 4096"},
           {Collective::broadcast, "tree*8:4", "not \"8:4\""},
           {Collective::broadcast, "chain/0", "size of messages after '/' must be a number from 1 to 1048575, perhaps"},
           {Collective::broadcast, "chain/1500000", "with K or M, such as 4096, 64K or 1M, not \"1500000\""},
           {Collective::broadcast, "chain/", "not \"\""},
           {Collective::broadcast, "chain/64k", "not \"64k\""},
           {Collective::broadcast, "chain/-1", "not \"-1\""},
           {Collective::broadcast, "chain*4/64K", "either a pipeline (*) or the size of its messages (/)"},
           {Collective::all_reduce, "circulant/64K", "gains nothing from a pipeline; leave out '/64K'"},
           {Collective::broadcast, "chain:4", "has no radix; leave out ':4'"},
           {Collective::all_reduce, "circulant*4", "gains nothing from a pipeline; leave out '*4'"},
           {Collective::all_reduce, "", "There is no algorithm \"\""},
       }) {
    CAPTURE(std::string{wrong.name});
    const std::string text = complaint(wrong.collective, wrong.name);
    CAPTURE(text);
    CHECK(contains(text, wrong.reason));
  }
}

TEST_CASE("collectives are found by name, and a misspelt one is answered with the nearest") {
  for (const Collective collective : all_collectives()) CHECK(find_collective(name_of(collective)) == collective);
  try {
    (void)find_collective("allreduce");
    FAIL("a misspelt name was accepted");
  } catch (const Error& error) {
    CHECK(contains(error.what(), "Did you mean \"all_reduce\"?"));
    CHECK(contains(error.what(), "barrier"));
  }
}

}  // namespace
}  // namespace tutti::algorithms
