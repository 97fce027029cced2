#include "lib/api/own_parts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace tutti::detail {
namespace {

using Sizes = std::vector<std::size_t>;

struct CallWithParts {
  std::vector<std::int32_t> input, output;
  Sizes counts, displacements, recv_counts{}, recv_displacements{};

  Request request(Collective collective, int root = 0) {
    Request request{.collective = collective, .input = {input.data(), input.size(), DataType::i32}, .output = {}};
    request.output = {output.data(), output.size(), DataType::i32};
    request.root = root;
    request.variable = true;
    request.counts = counts, request.displacements = displacements;
    request.recv_counts = recv_counts, request.recv_displacements = recv_displacements;
    return request;
  }
};

std::vector<std::int32_t> values(const void* data, std::size_t count) {
  const auto* const first = static_cast<const std::int32_t*>(data);
  return {first, first + count};
}

TEST_CASE("parts with displacements are packed before the call and unpacked after it, and what is between them stays") {
  CallWithParts call{{0, 11, 12, 0, 21, 0}, std::vector<std::int32_t>(6, -1), {2, 1}, {1, 4}, {1, 2}, {5, 0}};
  const Request request = call.request(Collective::all_to_all);
  REQUIRE(OwnParts::are_needed_for(request));
  OwnParts parts{request, 0};
  CHECK(parts.are_moved());
  CHECK(parts.request().displacements.empty());
  CHECK(parts.request().recv_displacements.empty());
  CHECK(parts.request().input.count == 3);
  CHECK(parts.request().output.count == 3);
  parts.collect_input();
  CHECK(values(parts.request().input.data, 3) == std::vector{11, 12, 21});
  const std::array<std::int32_t, 3> result{7, 8, 9};
  std::copy(result.begin(), result.end(), static_cast<std::int32_t*>(parts.request().output.data));
  parts.spread_output();
  CHECK(call.output == std::vector{8, 9, -1, -1, -1, 7});
}

TEST_CASE("only the rank that has the parts moves them") {
  for (const int rank : {0, 1}) {
    CallWithParts call{{1, 0, 2}, {0}, {1, 1}, {0, 2}};
    OwnParts scattered{call.request(Collective::scatter, 1), rank};
    CHECK(scattered.are_moved() == (rank == 1));
    CHECK((scattered.request().input.data == call.input.data()) == (rank != 1));
    CHECK(scattered.request().output.data == call.output.data());
  }
}

TEST_CASE("counts of larger elements become those of the wire, without a copy of the data") {
  CallWithParts call{{1, 2, 3, 4, 5, 6}, {1, 2}, {1, 2}, {}};
  Request request = call.request(Collective::reduce_scatter);
  CHECK_FALSE(OwnParts::are_needed_for(request));
  request.input.unit = request.output.unit = 2;
  REQUIRE(OwnParts::are_needed_for(request));
  OwnParts parts{request, 0};
  CHECK_FALSE(parts.are_moved());
  CHECK(Sizes{parts.request().counts.begin(), parts.request().counts.end()} == Sizes{2, 4});
  CHECK(parts.request().input.data == call.input.data());
}

}  // namespace
}  // namespace tutti::detail
