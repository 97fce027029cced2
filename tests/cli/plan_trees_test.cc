#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/double_binary_tree.h"
#include "algorithms/tree.h"
#include "cli/base/text.h"
#include "cli/plan/trees.h"

namespace tutti::cli {
namespace {

using enum Collective;

std::vector<Tree> trees_of(Collective collective, const std::string& name, int ranks, int root = 0) {
  const algorithms::Choice choice = algorithms::find(collective, name);
  std::vector<algorithms::Plan> plans;
  for (int rank = 0; rank < ranks; ++rank)
    plans.push_back(choice.entry->build({rank, ranks, root, choice.pipeline, choice.radix}));
  return find_trees(collective, plans, 2);
}

std::vector<int> parents(const Tree& tree) {
  std::vector<int> parent(tree.children.size(), -1);
  for (std::size_t rank = 0; rank < tree.children.size(); ++rank)
    for (const int child : tree.children[rank]) parent[static_cast<std::size_t>(child)] = static_cast<int>(rank);
  return parent;
}

TEST_CASE("the messages of double_binary_tree form the two trees of its formulas") {
  for (int ranks = 3; ranks <= 40; ++ranks) {
    CAPTURE(ranks);
    std::vector<int> first;
    std::vector<int> second;
    for (int rank = 0; rank < ranks; ++rank) {
      first.push_back(algorithms::first_tree(rank, ranks).parent);
      second.push_back(algorithms::second_tree(rank, ranks).parent);
    }
    for (const std::size_t pipeline : {1U, 3U}) {
      const std::vector<Tree> found = trees_of(all_reduce, "double_binary_tree*" + std::to_string(pipeline), ranks);
      REQUIRE(found.size() == 2);
      CHECK(parents(found[0]) == first);
      CHECK(parents(found[1]) == second);
      CHECK(found[0].up_and_down);
      CHECK(found[0].blocks.size() + found[1].blocks.size() == found[0].children.size() * pipeline);
    }
  }
}

TEST_CASE("the messages of tree form its k-nomial tree, for every collective that has it") {
  for (const int radix : {2, 3, 5})
    for (int ranks = 2; ranks <= 20; ++ranks)
      for (const Collective collective : {all_reduce, reduce, broadcast, scatter, gather, barrier}) {
        const bool rooted = collective != all_reduce && collective != barrier;
        const int root = rooted ? ranks / 2 : 0;
        CAPTURE(name_of(collective));
        CAPTURE(ranks);
        const std::vector<Tree> found = trees_of(collective, "tree:" + std::to_string(radix), ranks, root);
        REQUIRE(found.size() == 1);
        CHECK(found[0].root == root);
        CHECK(found[0].up_and_down == !rooted);
        for (int v = 1; v < ranks; ++v)
          CHECK(parents(found[0])[static_cast<std::size_t>((v + root) % ranks)] ==
                (algorithms::KnomialTree{ranks, radix}.parent(v) + root) % ranks);
      }
}

TEST_CASE("a chain is a tree without branches") {
  CHECK(parents(trees_of(broadcast, "chain", 4, 1).at(0)) == std::vector<int>{3, -1, 1, 2});
}

TEST_CASE("algorithms that are no trees show none") {
  CHECK(trees_of(all_reduce, "ring", 5).empty());
  CHECK(trees_of(all_reduce, "direct", 5).empty());
  CHECK(trees_of(all_reduce, "doubling", 8).empty());
  CHECK(trees_of(all_to_all, "pairwise", 4).empty());
  CHECK(trees_of(broadcast, "scatter_all_gather", 4).empty());
  CHECK(trees_of(broadcast, "tree", 1).empty());
}

TEST_CASE("a tree is drawn with each rank below its parent") {
  CHECK(draw({0, {{2, 1}, {}, {3}, {}}, {}, false}) ==
        "  0\n"
        "  |- 2\n"
        "  |  `- 3\n"
        "  `- 1\n");
}

TEST_CASE("a chain is drawn to the right, and never beyond 80 columns") {
  CHECK(draw({0, {{1, 5}, {2}, {3}, {4}, {}, {}}, {}, false}) ==
        "  0\n"
        "  |- 1 - 2 - 3 - 4\n"
        "  `- 5\n");
  const std::string text = draw(trees_of(broadcast, "chain", 40).at(0));
  CHECK(text.find('\n') <= 80);
  CHECK(text.find("- 39\n") + 5 == text.size());
}

TEST_CASE("numbers in a row are written as a range") {
  CHECK(compress({}) == "");
  CHECK(compress({4}) == "4");
  CHECK(compress({0, 1, 2, 5, 7, 8}) == "0-2, 5, 7-8");
}

}  // namespace
}  // namespace tutti::cli
