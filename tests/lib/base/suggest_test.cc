#include "lib/base/suggest.h"

#include <doctest/doctest.h>

#include <string_view>
#include <vector>

using tutti::did_you_mean;
using tutti::nearest;

TEST_CASE("a slip of the fingers is understood") {
  const std::vector<std::string_view> names{"ring", "tree", "double_binary_tree", "direct", "shm", "tcp"};
  CHECK(nearest("rnig", names) == "ring");  // swapped
  CHECK(nearest("rin", names) == "ring");   // left out
  CHECK(nearest("trree", names) == "tree");
  CHECK(nearest("tpc", names) == "tcp");
  CHECK(nearest("dbuole_binaryy_tree", names) == "double_binary_tree");
  CHECK(nearest("double", names) == "double_binary_tree");  // begun
  const std::vector<std::string_view> options{"--root", "--ranks", "--algo"};
  CHECK(nearest("--rnaks", options) == "--ranks");
  CHECK(nearest("--alg", options) == "--algo");
}

TEST_CASE("another word is not taken for a slip") {
  const std::vector<std::string_view> options{"--root", "--ranks", "--algo", "--html"};
  CHECK(nearest("--frob", options) == "");
  CHECK(nearest("--r", options) == "");
  CHECK(nearest("foo", std::vector<std::string_view>{"bor", "band", "bxor", "sum"}) == "");
  CHECK(nearest("frob", std::vector<std::string_view>{"for", "link", "hosts"}) == "");
  CHECK(nearest("TUTTI_FOO", std::vector<std::string_view>{"TUTTI_TLS", "TUTTI_JOB", "TUTTI_ISA"}) == "");
  CHECK(nearest("TUTTI_", std::vector<std::string_view>{"TUTTI_TLS", "TUTTI_JOB"}) == "");  // begins both
  CHECK(nearest("x", std::vector<std::string_view>{"y"}) == "");
  CHECK(nearest("", std::vector<std::string_view>{"y"}) == "");
}

TEST_CASE("the fewest slips win") {
  const std::vector<std::string_view> names{"all_reduce", "reduce", "all_gather"};
  CHECK(nearest("all_redcue", names) == "all_reduce");
  CHECK(nearest("redcue", names) == "reduce");
  CHECK(did_you_mean("al_reduce", names) == " Did you mean \"all_reduce\"?");
  CHECK(did_you_mean("nothing", names) == "");
}
