// Plans by domains of ranks that are near each other, on links and on boards.

#include "algorithms/domains.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/board_program.h"
#include "algorithms/catalogue.h"
#include "algorithms/check.h"
#include "algorithms/check_board.h"
#include "lib/base/collective_traits.h"
#include "tests/algorithms/hand_made.h"
#include "tests/support/sample.h"
#include "tutti/error.h"

namespace tutti::algorithms::testing {
namespace {

using Domains = std::vector<int>;

Lowering on_board(const Choice& choice, int ranks, int root) {
  return lower_to_board(plans_of_all(choice, shape_of(choice, 0, ranks, root)));
}

void prove(const Entry& entry, const Domains& domains, int root, std::size_t& proved) {
  if (*std::max_element(domains.begin(), domains.end()) == 0) return;  // one domain is none
  const auto ranks = static_cast<int>(domains.size());
  const Choice choice{.entry = &entry, .domains = domains};
  INFO(std::string{name_of(entry.collective)}, " ", to_string(choice), ", root ", root);
  const Verdict on_links = check(choice, ranks, root);
  CHECK_MESSAGE(on_links.ok(), problems(on_links));
  CHECK_FALSE(on_links.needs_room);
  const Lowering made = on_board(choice, ranks, root);
  REQUIRE_MESSAGE(!made.programs.empty(), made.why_not);
  const Verdict verdict = check_board(entry.collective, shape_of(choice, 0, ranks, root), made.programs);
  CHECK_MESSAGE(verdict.ok(), problems(verdict));
  CHECK(find(entry.collective, to_string(choice)).domains == domains);
  ++proved;
}

/// Numbered by first ranks, as everywhere.
Domains drawn(std::mt19937& random, int ranks, int most) {
  Domains domains;
  int count = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int domain = std::uniform_int_distribution<int>{0, std::min(count, most - 1)}(random);
    count = std::max(count, domain + 1);
    domains.push_back(domain);
  }
  return domains;
}

/// All ways to divide that many ranks.
void for_all_divisions(Domains& domains, int ranks, int count, auto&& act) {
  if (std::cmp_equal(domains.size(), ranks)) return act(domains);
  for (int domain = 0; domain <= count; ++domain) {
    domains.push_back(domain);
    for_all_divisions(domains, ranks, std::max(count, domain + 1), act);
    domains.pop_back();
  }
}

void for_roots(const Entry& entry, int ranks, auto&& act) {
  for (int root = 0; root < (detail::is_rooted(entry.collective) ? ranks : 1); ++root) act(root);
}

}  // namespace

TEST_CASE("plans by domains are right on links and on boards, for every division of up to 5 ranks") {
  std::size_t proved = 0;
  for (const Entry& entry : catalogue())
    for (int ranks = 2; ranks <= 5 && entry.has_domains; ++ranks) {
      Domains domains;
      for_all_divisions(domains, ranks, 0, [&](const Domains& division) {
        for_roots(entry, ranks, [&](int root) { prove(entry, division, root, proved); });
      });
    }
  std::printf("%zu shapes by domains proved, of 2 to 5 ranks\n", proved);
  CHECK(proved > 200);
}

TEST_CASE("plans by domains are right on links and on boards, for random divisions of up to 64 ranks into 8") {
  std::mt19937 random(tutti::testing::sample_seed(61));
  tutti::testing::Lot lot{4, 16};
  std::size_t proved = 0;
  for (const Entry& entry : catalogue())
    for (int i = 0; i < 240 && entry.has_domains; ++i) {
      const int ranks = std::uniform_int_distribution<int>{6, 64}(random);
      const Domains domains = drawn(random, ranks, 1 + i % 8);
      const int root = std::uniform_int_distribution<int>{0, ranks - 1}(random);
      if (lot.draws()) prove(entry, domains, detail::is_rooted(entry.collective) ? root : 0, proved);
    }
  std::printf("%zu shapes by domains proved, of 6 to 64 ranks\n", proved);
}

TEST_CASE("only leaders of domains send to other domains, and each what its whole domain has, once for each round") {
  const Domains domains{0, 1, 0, 1, 0, 1, 1, 0};
  for (const Entry& entry : catalogue()) {
    if (!entry.has_domains) continue;
    const Choice choice{.entry = &entry, .domains = domains};
    int crossing = 0;
    for (int rank = 0; rank < 8; ++rank)
      for (const Step& step : entry.build(shape_of(choice, rank, 8, 0)).steps)
        if (step.verb == Verb::send &&
            domains[static_cast<std::size_t>(step.peer)] != domains[static_cast<std::size_t>(rank)]) {
          CHECK((rank == 0 || rank == 1));
          CHECK((step.peer == 0 || step.peer == 1));
          ++crossing;
        }
    CHECK(crossing == (detail::is_rooted(entry.collective) ? 1 : 2));
  }
}

TEST_CASE("on a board a call by two domains takes as many rounds as there are levels to cross") {
  const auto rounds = [](Collective collective, const char* name, int ranks) {
    const Lowering made = on_board(find(collective, name), ranks, 0);
    REQUIRE(made.why_not == "");
    return made.programs[0].rounds.size();
  };
  CHECK(rounds(Collective::all_reduce, "hierarchical:2+2", 4) == 3);
  CHECK(rounds(Collective::all_reduce, "hierarchical:0.2+1.3", 4) == 3);
  CHECK(rounds(Collective::all_reduce, "hierarchical:2+2+2+2", 8) == 4);
  CHECK(rounds(Collective::barrier, "hierarchical:3+1", 4) == 3);
  CHECK(rounds(Collective::broadcast, "hierarchical:2+2", 4) == 2);
  CHECK(rounds(Collective::reduce, "hierarchical:2+2", 4) == 2);
  CHECK(on_board(find(Collective::all_reduce, "hierarchical:2"), 4, 0).why_not == "sends what it keeps in scratch");
  CHECK(on_board(find(Collective::all_reduce, "hierarchical:2+2+2+2+2+2+2+2+2"), 18, 0).why_not ==
        "takes more than six rounds");
}

TEST_CASE("domains are written by sizes, or by ranks where they are no neighbours, and read again") {
  for (const auto& known : std::vector<std::pair<std::string, Domains>>{{"3+1", {0, 0, 0, 1}},
                                                                        {"1+1", {0, 1}},
                                                                        {"2", {0, 0}},
                                                                        {"0.2+1.3", {0, 1, 0, 1}},
                                                                        {"0-1.4-6+2-3", {0, 0, 1, 1, 0, 0, 0}},
                                                                        {"0.3+1+2", {0, 1, 2, 0}}}) {
    CAPTURE(known.first);
    CHECK(domains_text(known.second) == known.first);
    CHECK(domains_in(known.first) == known.second);
  }
  CHECK(domains_in("1.3+0.2") == Domains{0, 1, 0, 1});  // numbered by their first ranks
  for (const char* wrong : {"", "+", "3+", "+3", "0+1", "3+x", "0.2", "0.2+1.2", "0.1+1.2", "2-1+0", "0..1", "0.",
                            "-1+0", "99999999", "0.70000"}) {
    CAPTURE(std::string{wrong});
    CHECK(domains_in(wrong).empty());
  }
}

TEST_CASE("a name may give domains to an algorithm that knows them, for as many ranks as they have") {
  const Choice choice = find(Collective::all_reduce, "hierarchical:3+1");
  CHECK(choice.domains == Domains{0, 0, 0, 1});
  CHECK(to_string(choice) == "hierarchical:3+1");
  CHECK(suits(choice, 4));
  CHECK_FALSE(suits(choice, 8));
  CHECK(suits(find(Collective::all_reduce, "hierarchical:4"), 9));
  const auto refused = [](Collective collective, const char* name) -> std::string {
    try {
      find(collective, name);
    } catch (const Error& error) {
      return error.what();
    }
    return "it is not";
  };
  CHECK(refused(Collective::all_reduce, "tree:3+1").find("tree of all_reduce knows no domains; leave out ':3+1'") !=
        std::string::npos);
  CHECK(refused(Collective::all_gather, "hierarchical:3+1").find("knows no domains") != std::string::npos);
  CHECK(refused(Collective::barrier, "hierarchical:0.1+1").find("with each rank once, not \"0.1+1\"") !=
        std::string::npos);
}

}  // namespace tutti::algorithms::testing
