// Which plans are one exchange of messages.

#include "algorithms/exchange.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/board_program.h"
#include "algorithms/catalogue.h"

namespace tutti::algorithms::testing {
namespace {

using enum Collective;

std::vector<std::optional<Exchange>> exchanges(Collective collective, const char* name, const Shape& shape) {
  std::vector<std::optional<Exchange>> all;
  for (const Plan& plan : plans_of_all(find(collective, name), shape)) all.push_back(exchange_of(plan));
  return all;
}

TEST_CASE("between two ranks plans without sums are one exchange") {
  for (const auto& named :
       {std::pair{all_gather, "circulant"}, {all_gather, "direct"}, {all_to_all, "pairwise"}, {all_to_all, "direct"}}) {
    CAPTURE(named.second);
    for (const auto& exchange : exchanges(named.first, named.second, {0, 2})) {
      REQUIRE(exchange);
      CHECK(exchange->send != no_step);
      CHECK(exchange->recv != no_step);
      CHECK(exchange->copies.size() == 1);
    }
  }
  for (const Collective collective : {broadcast, scatter, gather}) {
    const auto both = exchanges(collective, "tree", {0, 2});
    const std::size_t sender = collective == gather ? 1 : 0;
    REQUIRE(both[0]);
    REQUIRE(both[1]);
    CHECK(both[sender]->send != no_step);
    CHECK(both[sender]->recv == no_step);
    CHECK(both[1 - sender]->send == no_step);
    CHECK(both[1 - sender]->recv != no_step);
    CHECK(both[0]->copies.size() == (collective == broadcast ? 0 : 1));
  }
}

TEST_CASE("plans that sum, pass data on, or send more than one message are none") {
  CHECK_FALSE(exchanges(reduce, "tree", {0, 2})[0]);
  CHECK(exchanges(reduce, "tree", {0, 2})[1]);  // it only sends
  const auto chain = exchanges(broadcast, "chain", {0, 3});
  CHECK(chain[0]);
  CHECK_FALSE(chain[1]);
  CHECK(chain[2]);
  for (const auto& one : exchanges(broadcast, "chain*2", {.ranks = 2, .pipeline = 2})) CHECK_FALSE(one);
  for (const auto& one : exchanges(all_gather, "direct", {0, 3})) CHECK_FALSE(one);
  for (const auto& one : exchanges(all_reduce, "ring", {0, 2})) CHECK_FALSE(one);
}

TEST_CASE("an exchange has every step of its plan, and none waits for what comes later") {
  int found = 0;
  for (const Entry& entry : catalogue()) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      for (const Plan& plan : plans_of_all({&entry}, {0, ranks})) {
        const std::optional<Exchange> exchange = exchange_of(plan);
        if (!exchange) continue;
        CAPTURE(std::string{entry.name});
        CAPTURE(ranks);
        ++found;
        std::vector<StepId> order{exchange->send};
        order.insert(order.end(), exchange->copies.begin(), exchange->copies.end());
        order.push_back(exchange->recv);
        std::erase(order, no_step);
        CHECK(order.size() == plan.steps.size());
        std::vector<std::uint32_t> waits_for = plan.waits_for;
        bool a_copy_waits = false;
        for (const StepId step : order) {
          CHECK(waits_for[step] == 0);
          for (const StepId next : plan.successors(step)) {
            --waits_for[next];
            a_copy_waits |= step == exchange->send;
          }
        }
        CHECK(exchange->copies_wait == a_copy_waits);
      }
    }
  }
  CHECK(found > 100);
}

}  // namespace
}  // namespace tutti::algorithms::testing
