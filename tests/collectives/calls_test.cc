// What is wrong with a call is said at the call, in words that help, and nothing is sent.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
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
    refused(comm, bad, {"broadcast", "root 3", "0 to 2"}, [&] { comm.broadcast(data, 3); });
    refused(comm, bad, {"reduce", "root -1"}, [&] { comm.reduce(data, sum, -1); });
    refused(comm, bad, {"send", "7 is not a rank"}, [&] { comm.send(data, 7); });
    refused(comm, bad, {"send", "-1 is not a rank"}, [&] { comm.send(data, any_source); });
    refused(comm, bad, {"recv", "any_source"}, [&] { comm.recv(data, 3); });
    refused(comm, bad, {"send", "tag -2"}, [&] { comm.send(data, 1, {.tag = -2}); });
  });
}

TEST_CASE("counts that no memory holds are refused, whatever the call") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    int few[4] = {1, 2, 3, 4}, others[4] = {};
    const int other = 1 - comm.rank();
    const auto impossible = [&](std::size_t count, const std::function<void()>& call) {
      refused(
          comm, ErrorCode::invalid_argument,
          {fmt::format("on rank {} of 2: a count of {} elements", comm.rank(), count), "more than any memory holds"},
          call);
    };
    constexpr auto most = std::numeric_limits<std::size_t>::max();
    for (const std::size_t huge :
         {(most >> 3) - 1, (most >> 3) + 1, (most >> 2) + 1, (most >> 2) + 2, (most >> 1) + 1, most - 2}) {
      const std::span in{few, huge}, out{others, huge};
      const std::span all{others, 2 * huge};  // the part of each rank is huge
      impossible(huge, [&] { comm.all_reduce(in, sum); });
      impossible(huge, [&] { comm.all_reduce(in, out, sum); });
      impossible(huge, [&] { comm.async().all_reduce(in, sum).wait(); });
      impossible(huge, [&] { comm.prepare().all_reduce(in, sum).run(); });
      impossible(huge, [&] { comm.reduce(in, out, sum, 0); });
      impossible(huge, [&] { comm.broadcast(in, 0); });
      impossible(huge, [&] { comm.all_gather(in, all); });
      impossible(huge, [&] { comm.prepare().all_gather(in, all).run(); });
      impossible(huge, [&] { comm.gather(in, all, 0); });
      impossible(huge, [&] { comm.reduce_scatter(all, in, sum); });
      impossible(huge, [&] { comm.scatter(all, in, 0); });
      impossible(huge, [&] { comm.async().scatter(all, in, 0).wait(); });
      impossible(huge, [&] { comm.all_to_all(in, out); });
      impossible(huge, [&] { comm.scan(in, out, sum); });
      impossible(huge, [&] { comm.exclusive_scan(in, sum); });
      impossible(huge, [&] { comm.all_gather_v(in, others, {1, 1}); });
      impossible(huge, [&] { comm.all_to_all_v(few, {2, 2}, in, {2, 2}); });
      impossible(huge, [&] { comm.send(in, other); });
      impossible(huge, [&] { comm.isend(in, other).wait(); });
      impossible(huge, [&] { comm.recv(in, other); });
      impossible(huge, [&] { comm.irecv(in, other).wait(); });
      impossible(huge, [&] { comm.sendrecv(in, other, others, other); });
      impossible(huge, [&] { comm.sendrecv(few, other, out, other); });
    }
    // The number of bytes may be a small one again, or none.
    struct Pixel {
      std::uint64_t red, green, blue;
    } pixels[1] = {};
    for (const std::size_t huge : {(most >> 3) + 1, (most >> 3) + 2}) {
      impossible(most / sizeof(Pixel), [&] { comm.broadcast(std::span{pixels, huge}, 0); });
      impossible(most / sizeof(Pixel), [&] { comm.send(std::span{pixels, huge}, other); });
      impossible(most / sizeof(Pixel), [&] { comm.recv(std::span{pixels, huge}, other); });
    }
    // Nobody reads `in` of scatter() or writes `out` of gather() but the root.
    const std::span ignored{few, most / 4};
    comm.scatter(comm.rank() == 0 ? std::span{few} : ignored, std::span{others}.first(2), 0);
    CHECK(others[0] == 1 + 2 * comm.rank());
    comm.gather(std::span{others}.first(2), comm.rank() == 0 ? std::span{few} : ignored, 0);
    CHECK(few[3] == 4);
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
    refused(comm, bad, {"all_to_all_v", "this call has no in-place form", "give separate memory"}, [&] {
      comm.all_to_all_v(all, {10, 10}, all, {10, 10});
    });
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

TEST_CASE("a handle that was moved to another one's place is empty, and the operation goes on") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    std::vector<int> first(1), second(1);
    if (comm.rank() == 1) {
      comm.barrier();
      comm.send(std::vector{1}, 0, {.tag = 1});
      comm.send(std::vector{2}, 0, {.tag = 1});
    } else {
      Work work = comm.irecv(first, 1, {.tag = 1}), other = comm.irecv(second, 1, {.tag = 1});
      work = std::move(other);
      CHECK(other.done());
      CHECK_FALSE(work.done());
      Work& same = work;
      work = std::move(same);
      CHECK_FALSE(work.done());
      comm.barrier();
      work.wait();
      CHECK(second == std::vector{2});
    }
    comm.barrier();
    CHECK(first[0] == 1 - comm.rank());  // nobody holds it, and it has come before the other
  });
}

TEST_CASE("an object that was moved from says so, or is empty") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    std::vector<int> data(2, 1), four(4);
    auto old = comm.subgroup({0, 1});
    auto old_call = old.prepare().all_reduce(data, sum);
    Work old_work = old.async().all_reduce(data, sum);
    auto old_array = allocate<int>(old, 4);
    auto fresh = std::move(old);
    auto call = std::move(old_call);
    auto work = std::move(old_work);
    const auto array = std::move(old_array);

    CHECK(fresh);
    CHECK_FALSE(old);
    const std::string remedy = "was moved from";
    const auto moved = [&](const std::string& name, const std::function<void()>& use) {
      refused(comm, ErrorCode::invalid_argument, {name + ": ", remedy}, use);
    };
    moved("rank", [&] { old.rank(); });
    moved("size", [&] { old.size(); });
    moved("local_rank", [&] { old.local_rank(); });
    moved("local_size", [&] { old.local_size(); });
    moved("transport_to", [&] { old.transport_to(0); });
    moved("chosen_algorithm", [&] { old.chosen_algorithm(Collective::all_reduce, 4); });
    moved("all_reduce", [&] { old.all_reduce(data, sum); });
    moved("all_gather", [&] { old.async().all_gather(data, four).wait(); });
    moved("barrier", [&] { (void)old.prepare().barrier(); });
    moved("send", [&] { old.send(data, 1); });
    moved("send", [&] { old.isend(data, 1).wait(); });
    moved("recv", [&] { old.recv(data, 1); });
    moved("recv", [&] { old.irecv(data, 1).wait(); });
    moved("subgroup", [&] { old.subgroup({0}); });
    moved("split", [&] { old.split(0); });
    moved("abort", [&] { old.abort("never"); });
    moved("shrink", [&] { old.shrink(); });
    moved("allocate", [&] { return allocate<int>(old, 1).size(); });
    moved("start", [&] { old_call.start(); });
    moved("run", [&] { old_call.run(); });
    moved("probe", [&] { old.probe(1); });
    moved("iprobe", [&] { (void)old.iprobe(1); });
    moved("sendrecv", [&] { old.sendrecv(data, 1, four, 1); });
    moved("split_by_host", [&] { old.split_by_host(); });
    Work by_default;
    for (Handle* const none :
         {static_cast<Handle*>(&old_work), static_cast<Handle*>(&by_default), static_cast<Handle*>(&old_call)}) {
      none->wait();
      CHECK(none->done());
      CHECK(none->error() == nullptr);
      CHECK(none->wait_for(std::chrono::seconds{0}));
      CHECK(none->status().source == -1);
    }
    CHECK(old_array.size() == 0);
    CHECK(old_array.begin() == old_array.end());
    CHECK_FALSE(old_array.is_shared());

    work.wait();
    call.run();
    fresh.all_reduce(data, sum);
    CHECK(data[0] == 8);
    CHECK(array.size() == 4);
    CHECK(array.is_shared());
  });
}

TEST_CASE("ops are constants, and copies of a user's op share its function") {
  static_assert(sum.kind() == OpKind::sum && premul_sum(0.5).factor() == 0.5);
  const auto uses = std::make_shared<int>(0);
  {
    Op op = user_op<int>([uses](int a, int b) { return a + b; });
    CHECK(uses.use_count() == 2);
    Op copy = op;
    Op assigned = avg;
    assigned = copy;
    copy = sum;
    const Op& itself = op;
    op = itself;
    CHECK(uses.use_count() == 2);
    CHECK(assigned.kind() == OpKind::user);
    op = max;
    int three = 3;
    const int four = 4;
    (*assigned.function())(&three, &four, 1);
    CHECK(three == 7);
  }
  CHECK(uses.use_count() == 1);
}

}  // namespace
}  // namespace tutti::testing
