// What a rank remembers of its calls, and how it says that another rank made a different one.

#include "lib/collective/call_history.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "lib/collective/call.h"
#include "lib/group/group.h"
#include "tests/support/alone.h"

namespace tutti::detail {
namespace {

using transport::Frame;

Frame call(std::uint64_t count, std::uint32_t algorithm = 7) {
  return Call{.collective = Collective::all_reduce,
              .type = DataType::f32,
              .op = OpKind::sum,
              .count = count,
              .algorithm = algorithm}
      .frame(0);
}

/// A rank that has made calls of these counts.
struct CallingRank {
  explicit CallingRank(const std::vector<std::uint64_t>& counts = {}) {
    ring.name = "ring";
    for (const std::uint64_t count : counts) begin(count);
  }
  Frame begin(std::uint64_t count, std::uint32_t algorithm = 7, std::uint32_t window = 0) {
    Frame frame = call(count, algorithm);
    frame.window = window;
    return transport::frame_of(history.begin(transport::call_words_of(frame), ring, false, nullptr));
  }

  Group group{testing::alone(), 4242, {0}, 0};
  Prepared ring;
  CallHistory history{group};
};

std::string said(const CallingRank& rank, const Frame& theirs, const Frame& ours) {
  return rank.history.mismatch(0, theirs, ours, nullptr).what();
}

TEST_CASE("calls get consecutive numbers, and the last ones are remembered") {
  CallingRank rank;
  CHECK(rank.history.last_number() == 0);
  for (std::uint64_t number = 1; number <= 200; ++number) {
    CHECK(rank.begin(1000 + number).operation == number);
    CHECK(rank.history.last_number() == number);
  }
  for (const std::uint64_t number : {137u, 150u, 200u}) {
    CHECK(rank.history.remembers(number));
    CHECK(transport::frame_of(rank.history.call(number)).count == 1000 + number);
  }
  for (const std::uint64_t number : {0u, 1u, 136u, 201u}) CHECK_FALSE(rank.history.remembers(number));
}

TEST_CASE("a call says of which other one it is a part, and calls before and after it do not") {
  CallingRank rank;
  rank.begin(1);
  rank.history.begin(transport::call_words_of(call(2)), rank.ring, false, "split()");
  rank.begin(3);
  for (const std::uint64_t number : {1u, 2u, 3u}) {
    Status status;
    rank.history.describe_call(number, status);
    CHECK(status.call.starts_with("split(), in its all_reduce #") == (number == 2));
  }
}

TEST_CASE("a number is found again by its lower half, also of a call that is yet to come") {
  CallingRank rank{std::vector<std::uint64_t>(100, 5)};
  CHECK(rank.history.full_number(100) == 100);
  CHECK(rank.history.full_number(42) == 42);
  // One that is ahead counts as one before 2^32 calls: it is never remembered, so nothing is said of it.
  CHECK_FALSE(rank.history.remembers(rank.history.full_number(101)));
}

TEST_CASE("the hash is equal after equal calls, and differs after one that differs in anything") {
  const std::vector<std::uint64_t> counts{1, 2, 3};
  const std::uint64_t hash = CallingRank{counts}.history.hash();
  CHECK(hash == CallingRank{counts}.history.hash());
  CHECK(hash != CallingRank{{1, 2}}.history.hash());
  CHECK(hash != CallingRank{{1, 2, 4}}.history.hash());
  CHECK(hash != CallingRank{{2, 1, 3}}.history.hash());
  CallingRank other{{1, 2}};
  other.begin(3, 8);
  CHECK(hash != other.history.hash());
  CallingRank in_window{{1, 2}};
  in_window.begin(3, 7, 1);
  CHECK(hash != in_window.history.hash());
}

TEST_CASE("an error says how another rank's call differs") {
  CallingRank rank{{10, 20}};
  const Frame ours = transport::frame_of(rank.history.call(2));
  Frame theirs = ours;
  theirs.collective = static_cast<std::uint8_t>(Collective::barrier);
  CHECK(said(rank, theirs, ours).find("called barrier #2 while rank 0 called all_reduce #2 (20 x f32, sum)") !=
        std::string::npos);

  theirs = ours;
  for (const char* const name : {"direct", "tree:2", "chain*16", "tree_of_chains:2*7"}) {
    theirs.algorithm = algorithm_hash(name);
    CHECK(said(rank, theirs, ours)
              .find(fmt::format("there with {} and here with ring: give all ranks the same tuning table, options, "
                                "TUTTI_ALGO and TUTTI_DETERMINISTIC",
                                name)) != std::string::npos);
  }
  theirs.algorithm = 1;
  CHECK(said(rank, theirs, ours).find("there with another algorithm and here with ring: give all ranks") !=
        std::string::npos);

  theirs = ours;
  theirs.window = 1;
  CHECK(said(rank, theirs, ours).find("only there in allocated memory") != std::string::npos);
  CHECK(said(rank, ours, theirs).find("only here in allocated memory") != std::string::npos);
  Frame ours_elsewhere = ours;
  ours_elsewhere.window = 2;
  CHECK(said(rank, theirs, ours_elsewhere).find("in memory of another allocate()") != std::string::npos);

  theirs = ours;
  theirs.length = 8;
  CHECK(said(rank, theirs, ours).find("but sent 8 bytes where 0 were expected") != std::string::npos);

  theirs = ours;
  theirs.history = ours.history + 1;
  CHECK(said(rank, theirs, ours).find("their earlier calls differ: the last one here was all_reduce #1 (10 x f32") !=
        std::string::npos);
}

TEST_CASE("a message of a call that has ended here is told of that call") {
  CallingRank rank{{10, 20, 30}};
  Frame late = transport::frame_of(rank.history.call(1));
  late.length = 16;
  const Frame ours = transport::frame_of(rank.history.call(3));
  const Error error = rank.history.mismatch(0, late, ours, nullptr);
  CHECK(error.operation() == 1);
  CHECK(std::string{error.what()}.find("without the 16 bytes that rank 0 sent") != std::string::npos);
}

}  // namespace
}  // namespace tutti::detail
