// Collectives and messages that only move take structs, too: as bytes, counted in elements.

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/support/world.h"

namespace tutti::testing {
namespace {

struct Triple {
  std::int32_t a = 0;
  std::int16_t b = 0, c = 0;
  std::int32_t d = 0;
  friend bool operator==(const Triple&, const Triple&) = default;
};
enum class Colour : std::uint8_t { red, green };
static_assert(Element<Triple> && !Reducible<Triple> && Element<Colour> && Element<long double> && !Element<int*>);
static_assert(Element<int> && Reducible<int> && Reducible<char> && !Element<std::vector<int>>);
static_assert(data_type_of<Triple> == DataType::u8);

Triple made(int rank, std::size_t i) {
  const auto small = static_cast<std::int16_t>(i);
  return {rank, small, static_cast<std::int16_t>(-small), 1000 * rank + small};
}
std::vector<Triple> made(int rank, std::size_t first, std::size_t count) {
  std::vector<Triple> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(made(rank, first + i));
  return all;
}

void check_collectives(Communicator& comm, std::size_t count) {
  const int rank = comm.rank();
  const auto own = made(rank, 0, count);
  std::vector<Triple> all(count * usual_ranks), expected, part(count);
  for (int k = 0; k < usual_ranks; ++k)
    for (const Triple& one : made(k, 0, count)) expected.push_back(one);
  comm.all_gather(own, all);
  CHECK(all == expected);
  all.assign(all.size(), {});
  comm.gather(own, all, 1);
  if (rank == 1) CHECK(all == expected);
  const auto source = made(2, 0, count * usual_ranks);
  comm.scatter(source, part, 2);
  CHECK(part == made(2, count * static_cast<std::size_t>(rank), count));
  part = own;
  comm.broadcast(part, 1);
  CHECK(part == made(1, 0, count));
  comm.all_to_all(made(rank, 0, count * usual_ranks), all);
  for (int k = 0; k < usual_ranks; ++k)
    for (std::size_t i = 0; i < count; ++i)
      CHECK(all[static_cast<std::size_t>(k) * count + i] == made(k, static_cast<std::size_t>(rank) * count + i));

  const std::vector<int> counts{1, 2, 3};
  const auto few = made(rank, 0, static_cast<std::size_t>(rank) + 1);
  std::vector<Triple> joined(8);
  comm.all_gather_v(few, joined, {counts, {5, 3, 0}});
  CHECK(joined[5] == made(0, 0));
  CHECK(joined[4] == made(1, 1));
  CHECK(joined[2] == made(2, 2));
  joined.resize(6);
  comm.async().all_gather_v(few, joined, counts).wait();
  CHECK(joined[5] == made(2, 2));
  std::vector<Triple> exchanged(static_cast<std::size_t>(3 * (rank + 1)));
  const int mine = rank + 1;
  comm.all_to_all_v(made(rank, 0, 6), counts, exchanged, {mine, mine, mine});
  CHECK(exchanged.back() == made(2, static_cast<std::size_t>(rank * (rank + 1) / 2 + rank)));
}

}  // namespace

TEST_CASE("structs travel through every collective that only moves") {
  for (const Kind kind : all_kinds) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{5}, std::size_t{3001}}) {
      CAPTURE(std::string{name_of(kind)});
      CAPTURE(count);
      run_ranks({.ranks = usual_ranks, .kind = kind}, [&](Communicator& comm) { check_collectives(comm, count); });
    }
  }
}

TEST_CASE("counts that do not fit are told in elements, not in bytes") {
  run_ranks({.ranks = 2}, [](Communicator& comm) {
    std::vector<Triple> three(3), five(5);
    const auto says = [&](const std::string& text, const std::string& what) {
      CHECK_MESSAGE(what.find(text) != std::string::npos, what);
    };
    says("out has 5 elements, but 6 are needed", error_of([&] { comm.all_gather(three, five); }));
    says("in has 3 elements, which 2 ranks cannot share", error_of([&] { comm.all_to_all(three, three); }));
    says("in has 3 elements, but 2 are needed", error_of([&] { comm.all_gather_v(three, five, {2, 2}); }));
    // The same memory as the call before, which had elements of another size.
    std::vector<Triple> others(3);
    const auto bytes_of = [](std::vector<Triple>& all) {
      return std::span{reinterpret_cast<std::uint8_t*>(all.data()), all.size() * sizeof(Triple)};
    };
    std::span in = bytes_of(three), out = bytes_of(others);
    comm.all_to_all(in, out);
    says("in has 3 elements, which 2 ranks cannot share", error_of([&] { comm.all_to_all(three, others); }));
  });
}

TEST_CASE("messages of structs are counted in elements, and come whole or not at all") {
  for (const Kind kind : all_kinds) {
    CAPTURE(std::string{name_of(kind)});
    run_ranks({.ranks = 2, .kind = kind}, [](Communicator& comm) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{100}, std::size_t{50'000}}) {
        std::vector<Triple> out = made(comm.rank(), 0, count), in(count + 2);
        const MessageStatus status = comm.sendrecv(out, 1 - comm.rank(), in, 1 - comm.rank());
        CHECK(status.count == count);
        in.resize(count);
        CHECK(in == made(1 - comm.rank(), 0, count));
        Work receive = comm.irecv(in, 1 - comm.rank());
        comm.send(out, 1 - comm.rank());
        receive.wait();
        CHECK(receive.status().count == count);
      }
      if (comm.rank() == 0) {
        comm.send(std::vector<std::byte>(sizeof(Triple) + 1), 1);
        comm.send(std::vector<Triple>(5), 1);
        comm.send(std::vector<Colour>{Colour::green}, 1);
        return;
      }
      std::vector<Triple> in(3, made(7, 7));
      for (const char* const remedy :
           {"goes on: its 13 bytes are no whole number of elements of 12 bytes, so send and receive the same type",
            "goes on: receive it into 5 elements of 12 bytes"}) {
        ErrorCode code{};
        const std::string what = error_of([&] { comm.recv(in, 0); }, &code);
        CHECK(code == ErrorCode::truncated);
        CHECK_MESSAGE(what.ends_with(remedy), what);
        CHECK(in == std::vector<Triple>(3, made(7, 7)));
      }
      Colour colour = Colour::red;
      CHECK(comm.recv(std::span{&colour, 1}, 0).count == 1);
      CHECK(colour == Colour::green);
    });
  }
}

TEST_CASE("memory that ranks share may hold structs") {
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    const auto own = allocate<Triple>(comm, 2000);
    const auto all = allocate<Triple>(comm, 4000);
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = made(comm.rank(), i);
    comm.all_gather(own, all);
    CHECK(all[1999] == made(0, 1999));
    CHECK(all[3999] == made(1, 1999));
  });
}

}  // namespace tutti::testing
