#include "lib/collective/binding.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace tutti::detail {
namespace {

TEST_CASE("pieces cover the vector without gap or overlap, and differ by one cache line or one element at most") {
  for (const std::size_t element : {1U, 2U, 4U, 8U, 16U}) {
    for (const std::size_t pieces : {1U, 2U, 3U, 7U, 16U, 40U}) {
      const std::size_t n = pieces;
      for (const std::size_t count :
           {std::size_t{0}, std::size_t{1}, n - 1, n, n + 1, 3 * n + 2, 100 * n + 37, std::size_t{1'000'003}}) {
        std::size_t smallest = count;
        std::size_t largest = 0;
        REQUIRE(piece_offset(count, pieces, 0, element) == 0);
        REQUIRE(piece_offset(count, pieces, pieces, element) == count);
        for (std::size_t piece = 0; piece + 1 < pieces; ++piece) {  // the last one may be cut short
          const std::size_t begin = piece_offset(count, pieces, piece, element);
          const std::size_t end = piece_offset(count, pieces, piece + 1, element);
          REQUIRE(begin <= end);
          smallest = std::min(smallest, end - begin);
          largest = std::max(largest, end - begin);
        }
        if (pieces > 1) CHECK(largest - smallest <= std::max<std::size_t>(1, 64 / element));
      }
    }
  }
}

TEST_CASE("pieces of a vector near the end of the address space do not overflow") {
  const std::size_t count = std::size_t{1} << 59;
  CHECK(piece_offset(count, 300, 300, 16) == count);
  CHECK(piece_offset(count, 300, 299, 16) < count);
}

TEST_CASE("parts lie where their counts say, each cut into its own pieces") {
  const std::vector<std::size_t> prefix{0, 5, 5, 12};  // parts of 5, 0 and 7 elements
  const Partition partition = Partition::parts(prefix, 2, 4);
  CHECK(partition.offset(0) == 0);
  CHECK(partition.offset(1) == 4 * 3);
  CHECK(partition.offset(2) == 4 * 5);
  CHECK(partition.offset(3) == 4 * 5);
  CHECK(partition.offset(4) == 4 * 5);
  CHECK(partition.offset(5) == 4 * 9);
  CHECK(partition.offset(6) == 4 * 12);
}

TEST_CASE("blocks become the bytes of their side, scratch slots those of the blocks they are like") {
  std::vector<std::byte> input(400);
  std::vector<std::byte> output(400);
  std::vector<std::byte> scratch(400);
  algorithms::Plan plan;
  plan.scratch_like = {1, 0};
  Binding binding;
  const std::vector<std::size_t> prefix{0, 10, 30};
  binding.input = {input.data(), Partition::parts(prefix, 1, 4)};
  binding.output = {output.data(), Partition::parts(prefix, 1, 4)};
  binding.scratch = scratch.data();
  CHECK(binding.lay_out_scratch(plan, binding.input.partition) == 4 * 30);
  const auto first_slot = binding.bytes({algorithms::Buffer::scratch, 0, 1});
  CHECK(first_slot.size() == 4 * 20);
  CHECK(binding.bytes({algorithms::Buffer::scratch, 1, 1}).data() == scratch.data() + 4 * 20);
  CHECK(binding.bytes({algorithms::Buffer::input, 1, 1}).data() == input.data() + 4 * 10);
  CHECK(binding.bytes({algorithms::Buffer::output, 0, 2}).size() == 4 * 30);
}

TEST_CASE("sums that are larger than elements are cut where those are") {
  const Partition elements = Partition::vector(1000, 3, 1);
  const Partition sums = elements.with_elements_of(4);
  for (int block = 0; block <= 3; ++block) CHECK(sums.offset(block) == 4 * elements.offset(block));
  CHECK(Partition::vector(1000, 3, 4).offset(1) != sums.offset(1));
}

}  // namespace
}  // namespace tutti::detail
