#include "lib/startup/job_key.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "tests/support/text.h"
#include "tutti/error.h"
#include "tutti/store.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a token that another program has set under the same name is an error that says so") {
  for (const int rank : {0, 1}) {
    const auto store = memory_store();
    store->set("token", "abc");
    std::string text;
    try {
      agree_on_key({.rank = rank, .size = 2, .deadline = Clock::now() + 30s}, *store);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::rendezvous);
      text = error.what();
    }
    INFO(text);
    CHECK(testing::contains(text, "has 3 bytes, not 16"));
    CHECK(testing::contains(text, "another program or version shares this store under the same job name"));
  }
}

TEST_CASE("ranks of one store have one key, and those of the next another") {
  const auto key_of = [](Store& store, int rank) {
    return fingerprint(agree_on_key({.rank = rank, .size = 2, .deadline = Clock::now() + 30s}, store));
  };
  const auto store = memory_store(), next = memory_store();
  const std::string key = key_of(*store, 0);
  CHECK(key_of(*store, 1) == key);
  CHECK(key_of(*next, 0) != key);
}

}  // namespace
}  // namespace tutti::detail
