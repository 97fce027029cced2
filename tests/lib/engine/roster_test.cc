#include "lib/engine/roster.h"

#include <doctest/doctest.h>

#include <vector>

namespace tutti::detail {
namespace {

std::vector<int> all_of(const Roster<int>& roster) {
  std::vector<int> all;
  roster.for_each([&all](int& object) { all.push_back(object); });
  return all;
}

TEST_CASE("a roster keeps the order in which its objects came, whichever leave") {
  Roster<int> roster;
  std::vector<int> objects{0, 1, 2, 3, 4, 5};
  std::vector<std::uint32_t> slots;
  for (int i = 0; i < 5; ++i) slots.push_back(roster.add(objects[static_cast<std::size_t>(i)]));
  CHECK(all_of(roster) == std::vector{0, 1, 2, 3, 4});
  roster.remove(slots[2]);
  roster.remove(slots[0]);
  CHECK(*roster.oldest() == 1);
  const std::uint32_t again = roster.add(objects[5]);
  CHECK(again < 5);  // a number that was free
  CHECK(roster.find(again) == &objects[5]);
  CHECK(roster.find(slots[1]) == &objects[1]);
  CHECK(roster.find(99) == nullptr);
  CHECK(all_of(roster) == std::vector{1, 3, 4, 5});
  roster.remove(again);
  CHECK(roster.find(again) == nullptr);
  CHECK(all_of(roster) == std::vector{1, 3, 4});
  std::vector<int> seen;
  roster.for_each([&](int& object) {
    seen.push_back(object);
    roster.remove(slots[static_cast<std::size_t>(object)]);
  });
  CHECK(seen == std::vector{1, 3, 4});
  CHECK(roster.empty());
  CHECK(roster.oldest() == nullptr);
}

}  // namespace
}  // namespace tutti::detail
