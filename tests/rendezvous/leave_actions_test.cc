// What a store does for a client whose connection ends.

#include "rendezvous/leave_actions.h"

#include <doctest/doctest.h>

#include <string>

#include "rendezvous/tcp_server.h"
#include "rendezvous/tcp_service.h"
#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using rendezvous::LeaveActions;
using rendezvous::StoreService;
using rendezvous::TcpStoreServer;

TEST_CASE("leave actions are told from other keys by the end of their name, and come back as they were") {
  CHECK(LeaveActions::prefix_of("/tutti/0/.will/3") == "/tutti/0/");
  CHECK(LeaveActions::prefix_of("/.will/x") == "/");
  for (const char* other : {"/tutti/0/will/3", "/a/.will", "/a/.will/job/0/rank_info/1", ".will/3", ""})
    CHECK_FALSE(LeaveActions::prefix_of(other));
  const LeaveActions actions = LeaveActions{"place", "me"}.set("a", "").erase("b").set("c", std::string("\0x", 2));
  CHECK(LeaveActions::decode(actions.encode())->encode() == actions.encode());
  for (const std::string& text :
       {std::string{}, std::string{"no will"}, actions.encode() + "x", actions.encode().substr(1)})
    CHECK_FALSE(LeaveActions::decode(text));
}

TEST_CASE("a value that has no leave actions, or exceeds the server's memory, costs its client the connection") {
  rendezvous::ServerLimits limits;
  limits.total_bytes = 100'000;
  const TcpStoreServer server{{"127.0.0.1", 0}, limits};
  const auto connect = [&] { return tcp_store(server.endpoint().host, server.endpoint().port, patience); };
  const auto talker = connect();
  talker->set("job/.will/0", "no will");
  CHECK_THROWS_AS(talker->key_count(), Error);
  const auto writer = connect();
  LeaveActions{"place", "me"}.set("k", std::string(80'000, 'x')).deposit(*writer, "0");
  CHECK(writer->key_count() == 0);
  LeaveActions{"place", "me"}.set("k", std::string(80'000, 'x')).deposit(*writer, "1");
  CHECK_THROWS_AS(writer->key_count(), Error);
  CHECK(eventually([&] { return server.figures().memory_bytes < 1000; }));
}

TEST_CASE("leave actions that the memory is too small for change nothing when their client goes") {
  struct Client final : StoreService::Client {
    void stop_waiting() override {}
  };
  rendezvous::Budget budget{4096};
  StoreService service{budget, 4096};
  std::string answer;
  const auto set = [&](Client& client, const std::string& key, const std::string& value) {
    return service.serve(client, {.op = rendezvous::StoreOp::set, .fields = {key, value}}, answer);
  };
  const auto will = [](std::size_t bytes) {
    return LeaveActions{"place", "me"}.set("left", std::string(bytes, 'x')).encode();
  };
  Client first, second, reader;
  REQUIRE(set(reader, "/place", "me") == StoreService::Outcome::answered);
  const std::size_t before = budget.used();

  CHECK(set(first, "/.will/0", will(5000)) == StoreService::Outcome::refused);
  service.leave(first);
  CHECK(budget.used() == before);
  CHECK(service.stored_bytes() == before);

  CHECK(set(second, "/.will/1", will(10)) == StoreService::Outcome::answered);
  CHECK(set(second, "/.will/1", will(5000)) == StoreService::Outcome::refused);
  CHECK(set(second, "/.will/2", will(5000)) == StoreService::Outcome::refused);
  service.leave(second);
  CHECK(service.stored_bytes() == before + rendezvous::Table::bytes_of("/left", std::string(10, 'x')));
  CHECK(budget.used() == service.stored_bytes());
}

}  // namespace
}  // namespace tutti::testing
