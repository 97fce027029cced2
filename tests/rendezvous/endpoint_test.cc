#include "rendezvous/endpoint.h"

#include <doctest/doctest.h>

#include <string>

#include "tutti/error.h"

namespace tutti::testing {
namespace {

using rendezvous::Endpoint;
using rendezvous::parse_endpoint;

std::string refusal_of(const std::string& text) {
  try {
    parse_endpoint(text, "--endpoint");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(std::string{error.what()}.starts_with("--endpoint is \""));
    return error.what();
  }
  return "";
}

TEST_CASE("an endpoint is a host and a port, and can be written again") {
  for (const Endpoint& endpoint : {Endpoint{"node1", 29500}, Endpoint{"10.0.0.1", 0}, Endpoint{"::1", 65535},
                                   Endpoint{"fe80::1%eth0", 1}, Endpoint{"a-b.example", 80}})
    CHECK(parse_endpoint(to_string(endpoint), "") == endpoint);
  CHECK(to_string(Endpoint{"::1", 80}) == "[::1]:80");
}

TEST_CASE("a text that is no endpoint is refused with the reason") {
  CHECK(refusal_of("node1").find("the port is missing") != std::string::npos);
  CHECK(refusal_of("node1:").find("the port is missing") != std::string::npos);
  CHECK(refusal_of(":80").find("the host is missing") != std::string::npos);
  CHECK(refusal_of("::1").find("must be in brackets") != std::string::npos);
  CHECK(refusal_of("[::1]").find("expected [IPv6 address]:port") != std::string::npos);
  for (const char* text : {"[[::1]]:80", "[[node1]]:80", "node]:80", "no[de:80"})
    CHECK(refusal_of(text).find("only an IPv6 address has brackets, and only once") != std::string::npos);
  for (const char* text : {"node1:65536", "node1:-1", "node1:80x", "node1: 80"})
    CHECK(refusal_of(text).find("a port is a number from 0 to 65535") != std::string::npos);
}

}  // namespace
}  // namespace tutti::testing
