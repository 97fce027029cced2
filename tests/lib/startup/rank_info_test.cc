#include "lib/startup/rank_info.h"

#include <doctest/doctest.h>

#include "tutti/error.h"

namespace tutti::detail {
namespace {

RankInfo rank_info(const std::string& host, const std::string& families) {
  return {.host = host, .process = "pid 1", .families = families};
}

struct RankFamilies {
  std::string host;
  std::string acceptor;
  std::string families;
};

/// The error's rank and text; rank -2: none.
std::pair<int, std::string> complaint(const std::vector<RankFamilies>& ranks) {
  std::vector<RankInfo> rank_infos;
  std::vector<RankAccess> accesses;
  for (const RankFamilies& rank : ranks) {
    rank_infos.push_back(rank_info(rank.host, rank.families));
    accesses.push_back({.acceptor = rank.acceptor});
  }
  try {
    check_families(rank_infos, accesses);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::rendezvous);
    return {error.rank(), error.what()};
  }
  return {-2, ""};
}

}  // namespace

TEST_CASE("the information that a rank publishes comes back as it was") {
  RankInfo sent = rank_info("h", "46");
  sent.trace = ~std::uint64_t{0};
  sent.cache = "0-3,8-11";
  sent.board_limit = ~std::size_t{0};
  const RankInfo read = RankInfo::decode(sent.encode(), 0);
  CHECK(read.encode() == sent.encode());
  CHECK(read.families == "46");
  CHECK(read.trace == sent.trace);
  CHECK(read.cache == sent.cache);
  CHECK(read.node.empty());
  CHECK(read.board_limit == sent.board_limit);
}

TEST_CASE("how a rank is reached comes back as it was, a reason in one line") {
  const RankAccess sent{.shm_trouble = "it cannot:\nno room", .acceptor = "unix:0002f", .tcp = true};
  const RankAccess read = RankAccess::decode(sent.encode(), 0);
  CHECK(read.shm_trouble == "it cannot: no room");
  CHECK(read.acceptor == "unix:0002f");
  CHECK(read.tcp);
  CHECK_THROWS_AS(RankAccess::decode(sent.encode() + "more=1\n", 3), Error);
  CHECK_THROWS_AS(RankAccess::decode(rank_info("h", "46").encode(), 3), Error);
  std::string earlier = sent.encode();  // whose acceptor could not be a list
  earlier.replace(0, earlier.find('\n'), "tutti rank_access 1");
  CHECK_THROWS_AS(RankAccess::decode(earlier, 3), Error);
}

TEST_CASE("a rank_info of another version, or with a line too few, too many or of nonsense, is refused") {
  const std::string good = rank_info("h", "46").encode();
  std::vector<std::string> wrong{"", "h", good + "more=1\n", good.substr(0, good.size() - 1),
                                 "tutti rank_info 2\n" + good};
  for (const auto& [from, to] : {std::pair{"rank_info 5", "rank_info 6"},
                                 {"quota=0", "quota=-1"},
                                 {"quota=0", "quota=x"},
                                 {"trace=0", "trace=no"},
                                 {"quota=0\n", ""},
                                 {"host=", "guest="}}) {
    std::string changed = good;
    changed.replace(changed.find(from), std::string_view{from}.size(), to);
    wrong.push_back(changed);
  }
  for (const std::string& text : wrong) {
    CAPTURE(text);
    try {
      RankInfo::decode(text, 3);
      FAIL_CHECK("was taken");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::rendezvous);
      CHECK(error.rank() == 3);
    }
  }
}

TEST_CASE("an address of a family that another rank's host lacks is an error of both, with the variable that helps") {
  const std::pair<int, std::string> said =
      complaint({RankFamilies{"a", "[fd00::1]:5", "46"}, RankFamilies{"a", "[fd00::1]:6", "46"},
                 RankFamilies{"b", "10.0.0.2:5", "4"}});
  CHECK(said.first == 2);
  for (const char* part : {"rank 2 (host b) cannot reach rank 0 (host a)", "[fd00::1]:5, an address of IPv6",
                           "TUTTI_SOCKET_FAMILY=AF_INET for all"})
    CHECK_MESSAGE(said.second.find(part) != std::string::npos, said.second);
  CHECK(complaint({RankFamilies{"a", "10.0.0.1:5", "46"}, RankFamilies{"b", "[fd00::2]:5", "6"}})
            .second.find("AF_INET6 for all") != std::string::npos);
}

TEST_CASE("ranks that reach each other, or of which that is unknown, are left alone") {
  CHECK(complaint({RankFamilies{"a", "10.0.0.1:5", "46"}, RankFamilies{"b", "10.0.0.2:5", "4"}}).first == -2);
  CHECK(complaint({RankFamilies{"a", "[fd00::1]:5", "46"}, RankFamilies{"b", "[fd00::2]:5", "6"}}).first == -2);
  CHECK(complaint({RankFamilies{"a", "[fd00::1]:5", "46"}, RankFamilies{"b", "10.0.0.2:5", "46"}}).first == -2);
  CHECK(complaint({RankFamilies{"a", "unix:0002f", "6"}, RankFamilies{"a", "unix:00030", "4"}}).first == -2);
  CHECK(complaint({RankFamilies{"a", "[::1]:5", "4"}, RankFamilies{"a", "127.0.0.1:5", "4"}}).first == -2);
  CHECK(complaint({RankFamilies{"a", "[fd00::1]:5", ""}, RankFamilies{"b", "10.0.0.2:5", "4"}}).first == -2);
  CHECK(complaint({RankFamilies{"a", "[fd00::1]:5", "46"}, RankFamilies{"b", "10.0.0.2:5", ""}}).first == -2);
}

}  // namespace tutti::detail
