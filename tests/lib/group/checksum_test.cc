#include "lib/group/checksum.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/crc32c.h"
#include "tests/support/sample.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST_CASE("CRC-32C gives the values of RFC 3720, by instruction and by table") {
  std::vector<std::byte> rising(32);
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<std::byte>(i);
  for (const auto function : {crc32c, crc32c_by_table}) {
    CHECK(function(bytes_of("123456789"), 0) == 0xe3069283);
    CHECK(function(std::vector<std::byte>(32), 0) == 0x8a9136aa);
    CHECK(function(std::vector<std::byte>(32, std::byte{0xff}), 0) == 0x62a8ab43);
    CHECK(function(rising, 0) == 0x46dd794e);
    CHECK(function({}, 0) == 0);
  }
}

TEST_CASE("a CRC does not depend on how its bytes are cut, aligned or computed") {
  std::vector<std::byte> bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 167 + i / 7);
  for (std::size_t begin = 0; begin < 16; ++begin) {
    const auto all = std::span<const std::byte>(bytes).subspan(begin);
    const std::uint32_t whole = crc32c_by_table(all);
    CHECK(crc32c(all) == whole);
    for (std::size_t cut = 0; cut < all.size(); cut += 13)
      CHECK(crc32c(all.subspan(cut), crc32c(all.first(cut))) == whole);
  }
}

TEST_CASE("a checksum is never the 0 that means none, and no checksum is never broken") {
  const std::vector<std::byte> payload{std::byte{0xab}, std::byte{0x9b}, std::byte{0xe0}, std::byte{0x9b}};
  REQUIRE(crc32c(payload) == 0);
  CHECK(detail::checksum_of(payload) == 0xffffffff);
  const auto broken = [](std::uint32_t promised, std::span<const std::byte> arrived) {
    detail::Arriving arriving;
    arriving.begin(promised);
    arriving.add(arrived);
    return arriving.broken();
  };
  CHECK_FALSE(broken(0xffffffff, payload));
  CHECK_FALSE(broken(0, payload));
  CHECK_FALSE(broken(detail::checksum_of(bytes_of("abc")), bytes_of("abc")));
  CHECK(broken(detail::checksum_of(bytes_of("abc")), bytes_of("abd")));
  CHECK(broken(detail::checksum_of(payload), bytes_of("abd")));
}

/// What the two ranks are told when rank 0's first payload is changed on its way.
std::vector<std::string> outcomes(Kind kind, bool checksum, const std::string& fault,
                                  const std::function<void(Communicator&)>& talk) {
  std::vector<std::string> said(2);
  run_ranks({.ranks = 2, .kind = kind, .checksum = checksum, .timeout = 10s, .inject = fault}, [&](Communicator& comm) {
    ErrorCode code{};
    auto& mine = said[static_cast<std::size_t>(comm.rank())];
    mine = error_of([&] { talk(comm); }, &code);
    if (comm.rank() == 1 && mine != "") CHECK(code == ErrorCode::corrupted);
  });
  return said;
}

void check(const std::vector<std::string>& said, std::size_t bytes) {
  CHECK_MESSAGE(said[1].find(std::to_string(bytes) + " bytes from rank 0 (host ") != std::string::npos, said[1]);
  CHECK_MESSAGE(said[1].find(" to rank 1 (host ") != std::string::npos, said[1]);
}

TEST_CASE("a byte that changes on its way is found at its receiver, however the payload is taken in") {
  Lot lot{4, 4};  // each takes about a second, nearly all of it waiting
  for (const Kind kind : all_kinds) {
    for (const std::size_t count : {1U, 50U, 5000U, 1'000'000U}) {
      if (!lot.draws()) continue;
      CAPTURE(count);
      const auto broadcast = [&](Communicator& comm) {  // to memory
        std::vector<int> data(count, 1);
        comm.broadcast(data, 0, {.algorithm = "tree"});
        comm.barrier();
      };
      check(outcomes(kind, true, "corrupt:rank=0", broadcast), count * 4);
      CHECK(outcomes(kind, false, "corrupt:rank=0", broadcast) == std::vector<std::string>(2));
      const auto reduce = [&](Communicator& comm) {  // as views
        std::vector<int> data(count, 1);
        comm.reduce(data, sum, 1, {.algorithm = "tree"});
        comm.barrier();
      };
      check(outcomes(kind, true, "corrupt:rank=0", reduce), count * 4);
    }
  }
}

TEST_CASE("a byte that changes in a point-to-point message is found, sent at once or asked for, expected or not") {
  Lot lot{4, 4};
  for (const Kind kind : all_kinds) {
    for (const std::size_t count : {1U, 5000U, 100'000U}) {
      for (const bool expected : {true, false}) {
        if (!lot.draws()) continue;
        const auto talk = [&](Communicator& comm) {
          std::vector<int> data(count, 1);
          if (comm.rank() == 0) {
            if (expected) comm.barrier();
            comm.send(data, 1);
          } else {
            Work work;
            if (expected) work = comm.irecv(data, 0);
            if (expected) comm.barrier();
            if (!expected) work = comm.irecv(data, 0);
            work.wait();
          }
          comm.barrier();
        };
        // The request carries the beginning of a large message, unless the kernel may copy it once.
        const std::size_t first = kind == Kind::shm ? count * 4 : std::min<std::size_t>(count * 4, 32 * 1024);
        check(outcomes(kind, true, "corrupt:rank=0,message=1", talk), first);
        CHECK(outcomes(kind, false, "corrupt:rank=0,message=1", talk) == std::vector<std::string>(2));
        if (first < count * 4) check(outcomes(kind, true, "corrupt:rank=0,message=2", talk), count * 4 - first);
      }
    }
  }
}

TEST_CASE("with checksums and nothing broken all is as without") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 3, .kind = kind, .checksum = true}, [](Communicator& comm) {
      for (const std::size_t count : {0U, 1U, 7U, 3000U, 300'000U}) {
        std::vector<int> data(count, comm.rank());
        comm.all_reduce(data, sum, {.algorithm = "ring"});
        CHECK(data == std::vector<int>(count, 3));
        std::vector<int> all(3 * count);
        comm.all_to_all(std::vector<int>(3 * count, comm.rank()), all);
        CHECK(std::count(all.begin(), all.end(), 2) == static_cast<std::ptrdiff_t>(count));
      }
    });
  }
}

}  // namespace
}  // namespace tutti::testing
