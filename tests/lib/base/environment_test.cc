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
    CHECK_FALSE(accepted_by(variable).empty());
    CHECK((variable.kind == Variable::Kind::text || variable.kind == Variable::Kind::number) !=
          variable.values.empty());
    CHECK((variable.kind == Variable::Kind::word) <= !variable.words.empty());
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

TEST_CASE("variables that Kubernetes sets for services called tutti pass, and others that look like them do not") {
  for (const std::string service : {"TUTTI", "TUTTI_STORE", "TUTTI_SERVICE", "TUTTI_PORT_1"}) {
    CAPTURE(service);
    for (const char* rest :
         {"_SERVICE_HOST=10.0.0.1", "_SERVICE_PORT=29500", "_SERVICE_PORT_MEET=29500", "_PORT=tcp://10.0.0.1:29500",
          "_PORT=sctp://10.0.0.1:7", "_PORT_29500_TCP=tcp://10.0.0.1:29500", "_PORT_29500_TCP_PROTO=tcp",
          "_PORT_29500_TCP_PORT=29500", "_PORT_29500_TCP_ADDR=10.0.0.1", "_PORT_53_UDP_ADDR=10.0.0.1"}) {
      CAPTURE(rest);
      CHECK(complaint({(service + rest).c_str()}) == "");
    }
  }
  for (const char* other :
       {"TUTTI_PORT=29500", "TUTTI_SERVICE_PORT=tcp", "TUTTI_SERVICE_PORT=", "TUTTI_PORT", "TUTTI_PORT_X_TCP=1",
        "TUTTI_29500_TCP=1", "TUTTI_PORT_1_TCP_NAME=x", "TUTTI_HOST=10.0.0.1", "TUTTI_TCP_ADDR=1"}) {
    CAPTURE(other);
    CHECK(complaint({other}) != "");
  }
}

TEST_CASE("values are read by the types of the table, and refused in the same words") {
  using namespace environment;
  using std::chrono::milliseconds;
  const auto refusal = [](const char* name, const char* value, auto&& read) -> std::string {
    ::setenv(name, value, 1);
    std::string text;
    try {
      read(name);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      text = error.what();
    }
    ::unsetenv(name);
    return text;
  };
  const auto of = [](const char* name, const char* value, auto&& read) {
    ::setenv(name, value, 1);
    const auto result = read(name);
    ::unsetenv(name);
    return result;
  };
  CHECK_FALSE(is_on("TUTTI_CHECKSUM"));
  CHECK(is_on("TUTTI_MESSAGES_AT_ONCE"));
  CHECK(of("TUTTI_CHECKSUM", "1", is_on));
  CHECK_FALSE(of("TUTTI_MESSAGES_AT_ONCE", "0", is_on));
  CHECK(refusal("TUTTI_TLS", "true", is_on) == "TUTTI_TLS is \"true\": not a switch, accepted: 0 | 1.");
  CHECK_FALSE(number("TUTTI_SPIN"));
  CHECK_FALSE(of("TUTTI_SPIN", "auto", number));
  CHECK(of("TUTTI_SPIN", "0", number) == 0);
  CHECK(of("TUTTI_BOARD_BYTES", "18446744073709551615", number) == ~std::uint64_t{0});
  for (const char* wrong_number : {"-1", "1x", " 1", "1.5"})
    CHECK(refusal("TUTTI_SPIN", wrong_number, number) ==
          "TUTTI_SPIN is \"" + std::string{wrong_number} + "\": not a number, accepted: tries from 0 | auto.");
  CHECK(refusal("TUTTI_SPIN", "18446744073709551616", number) ==
        "TUTTI_SPIN is \"18446744073709551616\": out of range, accepted: tries from 0 | auto.");
  CHECK(refusal("TUTTI_TRACE_RECORDS", "15", number) ==
        "TUTTI_TRACE_RECORDS is \"15\": out of range, accepted: a number from 16 to 67108864.");
  CHECK(of("TUTTI_TIMEOUT", "0.5", seconds) == milliseconds{500});
  CHECK(of("TUTTI_TIMEOUT", "0.0001", seconds) == milliseconds{1});
  CHECK(of("TUTTI_TIMEOUT", "1e9", seconds) == milliseconds{1'000'000'000'000});
  for (const char* wrong_time : {"0", "-1", "nan", "2e9", "inf", "1s"})
    CHECK(refusal("TUTTI_TIMEOUT", wrong_time, seconds).find(", accepted: seconds, e.g. 30 or 2.5.") !=
          std::string::npos);
  for (const char* wrong_time : {"2e9", "1e400"})
    CHECK(refusal("TUTTI_TIMEOUT", wrong_time, seconds).find("\": out of range, ") != std::string::npos);
  CHECK(refusal("TUTTI_LOST_AFTER", "0.999", seconds).find("out of range, accepted: seconds from 1, e.g.") !=
        std::string::npos);
  CHECK(of("TUTTI_SINGLE_COPY", "on", word) == 2);
  CHECK(of("TUTTI_DEBUG", "info", word) == 2);
  CHECK(refusal("TUTTI_SINGLE_COPY", "of", word) ==
        "TUTTI_SINGLE_COPY is \"of\": not one of these, accepted: auto | off | on. Did you mean \"off\"?");
  CHECK(of("TUTTI_TRACE_FD", "7", descriptor) == 7);
  CHECK(descriptor("TUTTI_TRACE_FD") == -1);
  CHECK(refusal("TUTTI_TRACE_FD", "seven", descriptor) ==
        "TUTTI_TRACE_FD is \"seven\": not a number, accepted: a descriptor.");
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
