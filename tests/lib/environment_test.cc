#include "lib/base/environment.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "tutti/error.h"

namespace tutti {
namespace {

std::string complaint(std::initializer_list<const char*> entries) {
  std::vector<const char*> list{entries};
  list.push_back(nullptr);
  try {
    check_environment(list.data());
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every variable is listed once, with all that people want to know of it") {
  std::set<std::string_view> names;
  for (const Variable& variable : variables()) {
    CAPTURE(variable.name);
    CHECK(names.insert(variable.name).second);
    CHECK(variable.name.substr(0, 6) == "TUTTI_");
    CHECK_FALSE(variable.values.empty());
    CHECK_FALSE(variable.fallback.empty());
    CHECK_FALSE(variable.meaning.empty());
  }
  CHECK(names.contains("TUTTI_RANK"));
}

TEST_CASE("known variables and those of others pass, whatever their values") {
  CHECK(complaint({}) == "");
  CHECK(complaint({"PATH=/bin", "TUTTI_RANK=0", "TUTTI_RDZV=", "NOT_TUTTI_X=1", "TUTTI=1", "tutti_x=1"}) == "");
}

TEST_CASE("an unknown variable is an error that offers the nearest known one") {
  CHECK(complaint({"A=1", "TUTTI_TIMOUT=3"})
            .find("unknown environment variable TUTTI_TIMOUT. Did you mean \"TUTTI_TIMEOUT\"?") == 0);
  CHECK(complaint({"TUTTI_SOCKET_IF=eth0"}).find("\"TUTTI_SOCKET_IFNAME\"") != std::string::npos);
  const std::string far = complaint({"TUTTI_ENTIRELY_DIFFERENT_THING=1"});
  CHECK(far.find("TUTTI_ENTIRELY_DIFFERENT_THING") != std::string::npos);
  CHECK(far.find("Did you mean") == std::string::npos);
  CHECK(complaint({"TUTTI_"}) != "");
}

TEST_CASE("an empty variable counts as not set") {
  ::setenv("TUTTI_JOB", "", 1);
  CHECK_FALSE(variable("TUTTI_JOB"));
  ::setenv("TUTTI_JOB", "j", 1);
  CHECK(variable("TUTTI_JOB") == "j");
  ::unsetenv("TUTTI_JOB");
  CHECK_FALSE(variable("TUTTI_JOB"));
}

}  // namespace tutti
