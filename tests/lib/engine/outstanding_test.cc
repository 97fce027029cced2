// The account of all that is on its way: numbers, deadlines, credit, and the ranks that may ask about it.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "lib/engine/deadlines.h"
#include "lib/engine/roster.h"
#include "lib/engine/wait_escalation.h"
#include "lib/message/eager_credit.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;

// ---- Roster ------------------------------------------------------------------------------------------------------

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

// ---- Deadlines ---------------------------------------------------------------------------------------------------

class Idle final : public Pending {
 public:
  Idle() : Pending(nullptr) {}
  void start() noexcept override {}
  void expire() noexcept override {}
  void departed(std::span<const int> /*ranks*/) noexcept override {}
  void abort(std::string_view /*reason*/) noexcept override {}

 private:
  void recycle() noexcept override {}
};

TEST_CASE("the earliest deadline is known, whichever are put off or over") {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    Deadlines deadlines;
    std::vector<std::unique_ptr<Idle>> idle;
    std::map<Pending*, Clock::time_point> expected;
    for (int i = 0; i < 300; ++i) idle.push_back(std::make_unique<Idle>());
    for (int round = 0; round < 5000; ++round) {
      Pending& pending = *idle[random() % idle.size()];
      if (!expected.contains(&pending)) {
        deadlines.add(pending);
        expected[&pending] = Deadlines::never;
      } else if (random() % 3 == 0) {
        deadlines.remove(pending);
        expected.erase(&pending);
      } else {
        expected[&pending] = Clock::time_point{std::chrono::nanoseconds{random() % 1000}};
        deadlines.set(pending, expected[&pending]);
      }
      const auto earliest = std::ranges::min_element(expected, {}, [](const auto& entry) { return entry.second; });
      REQUIRE(deadlines.empty() == expected.empty());
      REQUIRE(deadlines.first() == (expected.empty() ? Deadlines::never : earliest->second));
      if (!expected.empty()) REQUIRE(expected.at(&deadlines.front()) == deadlines.first());
    }
  }
}

// ---- Credit ------------------------------------------------------------------------------------------------------

TEST_CASE("a sender may have a mebibyte at a receiver, who returns credit in quarters of it") {
  EagerCredit sender, receiver;
  constexpr std::size_t bytes = 1024 - EagerCredit::overhead;
  std::size_t sent = 0;
  const auto send_all = [&] {
    for (; sender.allows(bytes); ++sent) sender.spend(bytes);
  };
  send_all();
  CHECK(sent == 1024);
  CHECK(!sender.allows(0));
  std::size_t received = 0;
  for (; !receiver.owes_lump(); ++received) receiver.consume(bytes);
  CHECK(received == 256);
  sender.returned(receiver.settle());
  CHECK(!receiver.owes_lump());
  send_all();
  CHECK(sent == 1024 + 256);
  sender.restore(bytes);  // what has gone straight to its place
  CHECK(sender.allows(bytes));
  sender.returned(~std::uint64_t{0});  // more than it has spent, from a peer that is not right
  CHECK(sender.allows(EagerCredit::limit - EagerCredit::overhead));
  CHECK(!sender.allows(EagerCredit::limit));
}

// ---- Who asks ----------------------------------------------------------------------------------------------------

TEST_CASE("of thousands that wait for long one asks for all, and those past their deadline are asked for apart") {
  AskLimit limit;
  const Clock::time_point now = Clock::now();
  int asked = 0, demanded = 0;
  for (int i = 0; i < 10'000; ++i) {
    asked += limit.pass(now + i * 20us, false) ? 1 : 0;
    demanded += i % 2 == 1 && limit.pass(now + i * 20us, true) ? 1 : 0;
  }
  CHECK(asked == 4);  // in 200 ms
  CHECK(demanded == 4);
}

}  // namespace
}  // namespace tutti::detail
