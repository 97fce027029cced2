// What is wrong with a call is said at the call, in words that help, and nothing is sent.

#include <doctest/doctest.h>

#include <vector>

#include "tests/support/world.h"

namespace tutti::testing {
namespace {

/// `call` must fail with `code` and a message that contains all of `words`; the communicator must still work.
void refused(Communicator& comm, ErrorCode code, const std::vector<std::string>& words,
             const std::function<void()>& call) {
  ErrorCode found{};
  const std::string message = error_of(call, &found);
  CHECK_MESSAGE(found == code, message);
  for (const std::string& word : words) CHECK_MESSAGE(message.find(word) != std::string::npos, message);
  std::vector<int> one{1};
  comm.all_reduce(one, sum);
  CHECK(one[0] == comm.size());
}

TEST_CASE("wrong shapes are refused with what was found and what is needed") {
  run_ranks({.ranks = 3}, [](Communicator& comm) {
    std::vector<int> four(4);
    std::vector<int> five(5);
    std::vector<int> twelve(12);
    const auto bad = ErrorCode::invalid_argument;
    refused(comm, bad, {"all_reduce on rank", "out has 5", "4 are needed"}, [&] { comm.all_reduce(four, five, sum); });
    refused(comm, bad, {"all_gather", "out has 5", "12 are needed"}, [&] { comm.all_gather(four, five); });
    refused(comm, bad, {"reduce_scatter", "in has 5", "12 are needed"}, [&] { comm.reduce_scatter(five, four, sum); });
    refused(comm, bad, {"all_to_all", "3 ranks cannot share"}, [&] { comm.all_to_all(four, five); });
    refused(comm, bad, {"all_to_all", "out has 5"}, [&] { comm.all_to_all(twelve, five); });
    const std::vector<std::size_t> two_counts{1, 2};
    refused(comm, bad, {"all_gather_v", "2 entries", "3 ranks"}, [&] { comm.all_gather_v(four, twelve, two_counts); });
    const std::vector<std::size_t> counts{5, 5, 5};
    refused(comm, bad, {"entry of counts", "in has 4"}, [&] { comm.all_gather_v(four, twelve, counts); });
    refused(comm, bad, {"sum of send_counts", "in has 4"}, [&] { comm.all_to_all_v(four, counts, five, counts); });
  });
}

TEST_CASE("ranks, roots and tags out of range are refused with the valid range") {
  run_ranks({.ranks = 3}, [](Communicator& comm) {
    std::vector<int> data(3);
    const auto bad = ErrorCode::invalid_argument;
    refused(comm, bad, {"broadcast", "root 3", "0 to 2"}, [&] { comm.broadcast(data, {.root = 3}); });
    refused(comm, bad, {"reduce", "root -1"}, [&] { comm.reduce(data, sum, {.root = -1}); });
    refused(comm, bad, {"send", "7 is not a rank"}, [&] { comm.send(data, 7); });
    refused(comm, bad, {"send", "-1 is not a rank"}, [&] { comm.send(data, any_source); });
    refused(comm, bad, {"recv", "any_source"}, [&] { comm.recv(data, 3); });
    refused(comm, bad, {"send", "tag -2"}, [&] { comm.send(data, 1, {.tag = -2}); });
  });
}

TEST_CASE("a partial overlap of input and output is refused, the in-place forms are not") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    std::vector<int> data(20, 1);
    const std::span all{data};
    const auto bad = ErrorCode::invalid_argument;
    refused(comm, bad, {"overlap"}, [&] { comm.all_reduce(all.first(10), all.subspan(1, 10), sum); });
    refused(comm, bad, {"overlap"}, [&] { comm.all_gather(all.subspan(1, 10), all); });
    refused(comm, bad, {"overlap"}, [&] { comm.all_to_all(all.first(10), all.subspan(2, 10)); });
    refused(comm, bad, {"overlap"}, [&] { comm.reduce_scatter(all, all.subspan(5, 10), sum); });
    const std::size_t own = static_cast<std::size_t>(comm.rank()) * 10;
    comm.all_gather(all.subspan(own, 10), all);
    comm.reduce_scatter(all, all.subspan(own, 10), sum);
    CHECK(all[own] == 2);
  });
}

TEST_CASE("an unknown algorithm is refused and the nearest name offered") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    std::vector<int> data(3);
    const auto bad = ErrorCode::invalid_argument;
    refused(comm, bad, {"rign", "ring"}, [&] { comm.all_reduce(data, sum, {.algorithm = "rign"}); });
    refused(comm, bad, {"bruck"}, [&] { comm.all_reduce(data, sum, {.algorithm = "bruck"}); });
    refused(comm, bad, {"tree:1"}, [&] { comm.all_reduce(data, sum, {.algorithm = "tree:1"}); });
    const std::vector<std::size_t> counts{3, 3};
    std::vector<int> six(6);
    refused(comm, ErrorCode::unsupported, {"bruck", "equal"},
            [&] { comm.all_to_all_v(six, counts, std::vector<int>(6), counts, {.algorithm = "bruck"}); });
  });
}

TEST_CASE("a pair of type and op that means nothing is refused") {
  run_ranks({.ranks = 3}, [](Communicator& comm) {
    std::vector<float> floats(5, 1.0F);
    std::vector<std::complex<float>> complex(5);
    refused(comm, ErrorCode::unsupported, {"band", "f32"}, [&] { comm.all_reduce(floats, band); });
    refused(comm, ErrorCode::unsupported, {"min", "c64"}, [&] { comm.all_reduce(complex, min); });
  });
}

TEST_CASE("a user op works for its own type and is refused for another") {
  run_ranks({.ranks = 4}, [](Communicator& comm) {
    const auto larger_magnitude = user_op<int>([](int a, int b) { return std::abs(a) > std::abs(b) ? a : b; });
    std::vector<int> data{comm.rank() == 2 ? -9 : comm.rank()};
    comm.all_reduce(data, larger_magnitude);
    CHECK(data[0] == -9);
    std::vector<float> floats(2);
    refused(comm, ErrorCode::invalid_argument, {"i32", "f32"}, [&] { comm.all_reduce(floats, larger_magnitude); });
  });
}

}  // namespace
}  // namespace tutti::testing
