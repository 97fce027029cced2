#include "tests/transport/tcp_pair.h"

#include <doctest/doctest.h>

#include "transport/acceptor.h"

namespace tutti::transport::testing {

const Secret key = Secret::from_text("sixteen letters.", "the test");
const Secret other_key = Secret::from_text("sixteen letters!", "the test");

std::unique_ptr<Node> make_node(int rank, TcpOptions options, const net::Address& at) {
  auto node = std::make_unique<Node>();
  node->rank = rank;
  if (options.key.empty()) options.key = key;
  if (at.is_unix())
    options.acceptor = std::make_shared<Acceptor>(at, Credentials{options.key, rank, options.tls_proxies},
                                                  AcceptorOptions{.patience = options.hello_timeout});
  node->transport = std::make_unique<TcpTransport>(rank, options, node->reactor);
  node->transport->set_sink(node->recorder);
  return node;
}

Pair::Pair(const TcpOptions& options, const net::Address& at)
    : sender(make_node(0, options, at)), receiver(make_node(1, options, at)) {
  const std::vector<std::string> addresses = {sender->transport->address(), receiver->transport->address()};
  sender->transport->set_peers(addresses);
  receiver->transport->set_peers(addresses);
}

bool Pair::run_until(const std::function<bool()>& done) {
  for (const auto deadline = Clock::now() + hang_limit; !done();) {
    if (Clock::now() >= deadline) return false;
    sender->step();
    receiver->step();
  }
  return true;
}

bool Pair::exchange(std::size_t size, std::uint64_t seed) {
  const std::size_t before = receiver->recorder.messages.size();
  sender->send(1, 1, size, seed);
  return run_until([&] { return receiver->recorder.messages.size() > before; }) &&
         receiver->recorder.messages.back().bytes == pattern(size, seed);
}

Lonely::Lonely(const TcpOptions& options, const net::Address& at) : node(make_node(1, options, at)) {
  node->transport->set_peers({"127.0.0.1:1", node->transport->address()});
}

bool Lonely::run_until(const std::function<bool()>& done) {
  for (const auto deadline = Clock::now() + hang_limit; !done(); node->step())
    if (Clock::now() >= deadline) return false;
  return true;
}

RawPeer Lonely::enter(std::string_view bytes, Channel channel) {
  RawPeer peer = connect();
  REQUIRE(peer.shake_hands(Handshake::initiate(key, {.from = 0, .to = 1, .channel = channel})));
  peer.write(bytes);
  return peer;
}

std::string first_bytes(const Hello& hello, const Secret& with) {
  return text_of(Handshake::initiate(with, hello).outgoing());
}

RawPeer let_in(RawListener& listener, Node& node) {
  RawPeer peer = listener.accept();
  REQUIRE(peer.shake_hands(Handshake::accept(key, Purpose::link, 1), [&] { node.step(); }));
  return peer;
}

}  // namespace tutti::transport::testing
