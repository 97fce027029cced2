#include "lib/failure/recent_counts.h"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

namespace tutti::detail {
namespace {

using Numbers = std::vector<std::uint64_t>;

TEST_CASE("counts are kept as numbers of elements, for the last sixteen calls") {
  RecentCounts recent;
  CHECK(recent.of(0) == nullptr);
  for (std::uint64_t call = 1; call <= 20; ++call) {
    const std::vector<std::size_t> sends{0, call, call, 3 * call}, receives{0, 5, 9, 9};
    recent.note(call, sends, call % 2 == 0 ? receives : std::vector<std::size_t>{});
  }
  CHECK(recent.of(0) == nullptr);
  CHECK(recent.of(4) == nullptr);
  CHECK(recent.of(21) == nullptr);
  for (std::uint64_t call = 5; call <= 20; ++call) {
    const RecentCounts::Counts* const found = recent.of(call);
    REQUIRE(found != nullptr);
    CHECK(found->number == call);
    CHECK(found->sends == Numbers{call, 0, 2 * call});
    CHECK(found->receives == (call % 2 == 0 ? Numbers{5, 4, 0} : Numbers{}));
  }
}

TEST_CASE("an error about counts names both ranks, and a long list is cut") {
  const std::string text =
      unequal_counts("all_to_all_v #3", {1, "rank 1 (host a, pid 7)", 10}, {4, "rank 4 (host b, pid 8)", 12});
  CHECK(text ==
        "rank 1 (host a, pid 7) gave 10 as send_counts[4] in all_to_all_v #3, but rank 4 (host b, pid 8) gave 12 as "
        "recv_counts[1]: 10 sent, 12 expected; both must give the same count");
  CHECK(list_of(Numbers{}).empty());
  CHECK(list_of(Numbers{10, 0, 30}) == "10, 0, 30");
  Numbers many(33);
  std::iota(many.begin(), many.end(), 1);
  CHECK(list_of(many).ends_with("31, 32, ..."));
  many.pop_back();
  CHECK(list_of(many).ends_with("31, 32"));
}

}  // namespace
}  // namespace tutti::detail
