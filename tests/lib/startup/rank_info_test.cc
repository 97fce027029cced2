#include "lib/startup/rank_info.h"

#include <doctest/doctest.h>

#include "tutti/error.h"

namespace tutti::detail {
namespace {

RankInfo rank_info(const std::string& host, const std::string& acceptor, const std::string& families) {
  return {.host = host, .process = "pid 1", .acceptor = acceptor, .families = families};
}

/// The error's rank and text; rank -2: none.
std::pair<int, std::string> complaint(const std::vector<RankInfo>& rank_infos) {
  try {
    check_families(rank_infos);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::rendezvous);
    return {error.rank(), error.what()};
  }
  return {-2, ""};
}

}  // namespace

TEST_CASE("what a rank publishes of itself comes back as it was") {
  RankInfo sent = rank_info("h", "10.0.0.1:5", "46");
  sent.traces = true;
  sent.board_limit = ~std::size_t{0};
  const RankInfo read = RankInfo::decode(sent.encode(), 0);
  CHECK(read.encode() == sent.encode());
  CHECK(read.families == "46");
  CHECK(read.acceptor == "10.0.0.1:5");
  CHECK(read.traces);
  CHECK(read.board_limit == sent.board_limit);
}

TEST_CASE("a rank_info of another version, or with a line too few, too many or of nonsense, is refused") {
  const std::string good = rank_info("h", "10.0.0.1:5", "46").encode();
  std::vector<std::string> wrong{"", "h", good + "more=1\n", good.substr(0, good.size() - 1),
                                 "tutti rank_info 1\n" + good};
  for (const auto& [from, to] : {std::pair{"rank_info 2", "rank_info 3"},
                                 {"quota=0", "quota=-1"},
                                 {"quota=0", "quota=x"},
                                 {"tcp=false", "tcp=no"},
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
  const std::pair<int, std::string> said = complaint(
      {rank_info("a", "[fd00::1]:5", "46"), rank_info("a", "[fd00::1]:6", "46"), rank_info("b", "10.0.0.2:5", "4")});
  CHECK(said.first == 2);
  for (const char* part : {"rank 2 (host b) cannot reach rank 0 (host a)", "[fd00::1]:5, an address of IPv6",
                           "TUTTI_SOCKET_FAMILY=AF_INET for all"})
    CHECK_MESSAGE(said.second.find(part) != std::string::npos, said.second);
  CHECK(complaint({rank_info("a", "10.0.0.1:5", "46"), rank_info("b", "[fd00::2]:5", "6")})
            .second.find("AF_INET6 for all") != std::string::npos);
}

TEST_CASE("ranks that reach each other, or of which that is unknown, are left alone") {
  CHECK(complaint({rank_info("a", "10.0.0.1:5", "46"), rank_info("b", "10.0.0.2:5", "4")}).first == -2);
  CHECK(complaint({rank_info("a", "[fd00::1]:5", "46"), rank_info("b", "[fd00::2]:5", "6")}).first == -2);
  CHECK(complaint({rank_info("a", "[fd00::1]:5", "46"), rank_info("b", "10.0.0.2:5", "46")}).first == -2);
  CHECK(complaint({rank_info("a", "[::1]:5", "4"), rank_info("a", "127.0.0.1:5", "4")}).first == -2);
  CHECK(complaint({rank_info("a", "[fd00::1]:5", ""), rank_info("b", "10.0.0.2:5", "4")}).first == -2);
  CHECK(complaint({rank_info("a", "[fd00::1]:5", "46"), rank_info("b", "10.0.0.2:5", "")}).first == -2);
}

}  // namespace tutti::detail
