// Every exception becomes a result and a text.

#include "lib/c/guarded.h"

#include <doctest/doctest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "tutti/error.h"

using tutti::c_api::guarded;

TEST_CASE("an exception becomes a result, and its words are kept") {
  CHECK(guarded("f", [] {}) == TUTTI_OK);
  CHECK(guarded("f", [] { throw tutti::Error{tutti::ErrorCode::timeout, "too late", 3, 7}; }) == TUTTI_TIMEOUT);
  CHECK(std::string{tutti_last_error()} == "too late");
  tutti_error_details details{};
  details.size = sizeof details;
  CHECK(tutti_last_error_details(&details) == TUTTI_OK);
  CHECK(details.code == TUTTI_TIMEOUT);
  CHECK(details.rank == 3);
  CHECK(details.operation == 7);
  CHECK(guarded("f", [] { throw tutti::c_api::Wrong{"x is odd"}; }) == TUTTI_INVALID_ARGUMENT);
  CHECK(std::string{tutti_last_error()} == "f: x is odd");
}

TEST_CASE("an exception that tutti did not throw is caught, too") {
  CHECK(guarded("f", [] { throw std::bad_alloc{}; }) == TUTTI_SYSTEM);
  CHECK(std::string{tutti_last_error()} == "f: out of memory");
  CHECK(guarded("f", [] { throw std::logic_error{"strange"}; }) == TUTTI_INTERNAL);
  CHECK(std::string{tutti_last_error()} == "f: a fault of tutti's own: strange");
  CHECK(guarded("f", [] { throw 1; }) == TUTTI_INTERNAL);
  tutti_error_details details{};
  details.size = sizeof details;
  CHECK(tutti_last_error_details(&details) == TUTTI_OK);
  CHECK(details.code == TUTTI_INTERNAL);
}

TEST_CASE("each thread has a last error of its own, which a success leaves") {
  CHECK(guarded("f", [] { throw tutti::c_api::Wrong{"here"}; }) == TUTTI_INVALID_ARGUMENT);
  std::thread{[] {
    CHECK(std::string{tutti_last_error()}.empty());
    CHECK(guarded("f", [] { throw tutti::c_api::Wrong{"there"}; }) == TUTTI_INVALID_ARGUMENT);
  }}.join();
  CHECK(guarded("f", [] {}) == TUTTI_OK);
  CHECK(std::string{tutti_last_error()} == "f: here");
}
