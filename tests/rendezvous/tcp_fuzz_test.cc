// Random bytes, changed requests and lengths, with a fixed seed, against a server that must go on serving.

#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "rendezvous/tcp_protocol.h"
#include "rendezvous/tcp_server.h"
#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using rendezvous::StoreMessage;
using rendezvous::StoreOp;
using rendezvous::TcpStoreServer;

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t bound) { return random() % bound; }

std::string random_bytes(Random& random, std::size_t count) {
  std::string result(count, '\0');
  for (char& byte : result) byte = static_cast<char>(random());
  return result;
}

/// A request with the right form and lengths.
std::string random_request(Random& random) {
  const auto key = [&] { return "/" + std::to_string(below(random, 5)); };
  const auto value = [&] { return random_bytes(random, below(random, 3000)); };
  const auto op = static_cast<StoreOp>(below(random, rendezvous::store_op_count));
  StoreMessage message{op};
  const std::size_t count = below(random, 4);
  switch (op) {
    case StoreOp::validate:
      message.u32(rendezvous::store_magic);
      break;
    case StoreOp::set:
    case StoreOp::append:
    case StoreOp::queue_push:
      message.text(key()).text(value());
      break;
    case StoreOp::compare_set:
      message.text(key()).text(value()).text(value());
      break;
    case StoreOp::get:
    case StoreOp::erase:
    case StoreOp::queue_pop:
    case StoreOp::queue_len:
      message.text(key());
      break;
    case StoreOp::add:
    case StoreOp::barrier:
      message.text(key()).u64(random());
      break;
    case StoreOp::check:
    case StoreOp::wait:
    case StoreOp::multi_get:
      message.u64(count);
      for (std::size_t i = 0; i < count; ++i) message.text(key());
      break;
    case StoreOp::multi_set:
      message.u64(count);
      for (std::size_t i = 0; i < count; ++i) message.text(key()).text(value());
      break;
    case StoreOp::key_count:
    case StoreOp::list_keys:
    case StoreOp::cancel_wait:
      break;
    case StoreOp::ping:
      message.u32(static_cast<std::uint32_t>(random()));
      break;
  }
  return message.bytes();
}

/// What a stranger sends: noise, or requests of which some bytes were changed, put in or left out.
std::string random_stream(Random& random) {
  if (below(random, 4) == 0) return random_bytes(random, below(random, 200));
  std::string stream = below(random, 10) == 0 ? "" : greeting();
  for (std::size_t i = below(random, 6); i > 0; --i) stream += random_request(random);
  for (std::size_t i = below(random, 3); i > 0 && stream.size() > 6; --i) {
    const std::size_t at = 5 + below(random, stream.size() - 5);
    switch (below(random, 4)) {
      case 0:
        stream[at] = static_cast<char>(random());
        break;
      case 1:
        stream.insert(at, random_bytes(random, 1 + below(random, 9)));
        break;
      case 2:
        stream.resize(at);
        break;
      case 3:
        stream.replace(at, 8, StoreMessage{}.u64(random() >> below(random, 64)).bytes());
        break;
    }
  }
  return stream;
}

}  // namespace

TEST_CASE("random bytes, changed lengths and requests cut short do not disturb an honest client") {
  const TcpStoreServer server{{"127.0.0.1", 0}, {.total_bytes = 4'000'000, .unidentified = 50}};
  const auto honest = tcp_store(server.endpoint().host, server.endpoint().port, patience);
  honest->set("mine", "unharmed");
  Random random{20'240'229};
  std::vector<RawClient> strangers;
  for (int round = 0; round < 3000; ++round) {
    RawClient client{server.endpoint()};
    client.send(random_stream(random));
    if (below(random, 3) == 0) strangers.push_back(std::move(client));
    if (strangers.size() > 40) strangers.erase(strangers.begin() + static_cast<std::ptrdiff_t>(below(random, 40)));
    if (round % 100 == 0) CHECK(honest->get("mine") == "unharmed");
    if (server.figures().memory_bytes > 4'000'000) FAIL("used " << server.figures().memory_bytes << " bytes");
  }
  strangers.clear();
  CHECK(eventually([&] { return server.figures().connections == 1; }));
  CHECK(tcp_store(server.endpoint().host, server.endpoint().port, patience)->get("mine") == "unharmed");
  // What the strangers stored is all that is left of them.
  RawClient heir{server.endpoint()};
  heir.send(greeting());
  for (int i = 0; i < 5; ++i) {
    honest->erase(std::to_string(i));
    for (std::int64_t left = 1; left > 0;) {
      heir.send(StoreMessage{StoreOp::queue_pop}.text("/" + std::to_string(i)).bytes());
      std::memcpy(&left, heir.recv(sizeof left).data(), sizeof left);
      std::uint64_t length = 0;
      if (left > 0) std::memcpy(&length, heir.recv(sizeof length).data(), sizeof length);
      heir.recv(length);
    }
  }
  CHECK(eventually([&] { return server.figures().memory_bytes < 5000; }));
}

}  // namespace tutti::testing
