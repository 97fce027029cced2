#include "rendezvous/slurm.h"

#include <doctest/doctest.h>

#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using rendezvous::expand_hostlist;
using rendezvous::tasks_on_node;

std::string joined(std::string_view list) {
  std::string result;
  for (const std::string& host : expand_hostlist(list)) result += (result.empty() ? "" : " ") + host;
  return result;
}

}  // namespace

TEST_CASE("Slurm's short lists of hosts expand as scontrol show hostnames does") {
  CHECK(joined("n0") == "n0");
  CHECK(joined("n0,m1") == "n0 m1");
  CHECK(joined("n[0-1,07-09],m3") == "n0 n1 n07 n08 n09 m3");
  CHECK(joined("n[1-3,7]") == "n1 n2 n3 n7");
  CHECK(joined("n[8-11]") == "n8 n9 n10 n11");
  CHECK(joined("n[098-101]") == "n098 n099 n100 n101");
  CHECK(joined("r[1-2]n[4,6]") == "r1n4 r1n6 r2n4 r2n6");
  CHECK(joined("gpu-[1-2]-ib,login") == "gpu-1-ib gpu-2-ib login");
  CHECK(joined("n[5]") == "n5");
}

TEST_CASE("a text that is no list of hosts is refused, and so is a list without end") {
  for (const char* list : {"", "n[", "n[]", "n]", "n[1-", "n[1-2", "n[2-1]", "n[a-b]", "n[1-x]", "n[-1]", "n[1,,2]",
                           ",n1", "n[0-99999]", "n[0-999]x[0-999]"}) {
    CAPTURE(list);
    const Error error = error_of([&] { expand_hostlist(list); });
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(contains(error.what(), list));
  }
}

TEST_CASE("tasks per node are read from Slurm's short form") {
  CHECK(tasks_on_node("2(x3),1", 0) == 2);
  CHECK(tasks_on_node("2(x3),1", 2) == 2);
  CHECK(tasks_on_node("2(x3),1", 3) == 1);
  CHECK(tasks_on_node("4", 0) == 4);
  CHECK_FALSE(tasks_on_node("2(x3),1", 4));
  for (const char* text : {"", "x", "2(x", "2(x)", "2(y3)"}) CHECK_FALSE(tasks_on_node(text, 0));
}

}  // namespace tutti::testing
