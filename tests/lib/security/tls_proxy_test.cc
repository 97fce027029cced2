#include "lib/security/tls_proxy.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "tests/lib/security/tls_proxy_pair.h"

namespace tutti::testing {
namespace {

/// Stands on the path, hands on what comes, and may change it.
class Path {
 public:
  using Change = std::function<void(std::string& bytes, bool from_client)>;

  explicit Path(Change change) : change_(std::move(change)) {
    std::tie(client, left_) = connected_sockets();
    std::tie(server, right_) = connected_sockets();
    thread_ = std::thread{[this] { run(); }};
  }
  ~Path() {
    stop_ = true;
    thread_.join();
  }

  Descriptor client;
  Descriptor server;

 private:
  void run() {
    while (!stop_ && hand_on(left_, right_, true) && hand_on(right_, left_, false)) {
      std::array<pollfd, 2> queries{pollfd{left_.get(), POLLIN, 0}, pollfd{right_.get(), POLLIN, 0}};
      ::poll(queries.data(), queries.size(), 10);
    }
    left_.reset();
    right_.reset();
  }
  /// False when nothing comes any more.
  bool hand_on(const Descriptor& from, const Descriptor& to, bool from_client) {
    std::array<char, 65'536> buffer;
    const ssize_t got = ::recv(from.get(), buffer.data(), buffer.size(), 0);
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    std::string bytes{buffer.data(), static_cast<std::size_t>(got)};
    change_(bytes, from_client);
    return write_all(to, bytes);
  }

  const Change change_;
  Descriptor left_;
  Descriptor right_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("much travels both ways at once, and who stands on the path reads none of it") {
  std::string seen;
  Path path{[&](std::string& bytes, bool) { seen += bytes; }};
  const std::string sent = text(4 * mebibyte);
  {
    Pair pair{key_of(1), std::move(path.client), std::move(path.server)};
    REQUIRE(pair.ready());
    std::string heard;
    std::thread peer{[&] {
      std::thread writer{[&] { write_all(pair.second, sent); }};
      heard = read(pair.second, sent.size());
      writer.join();
    }};
    std::thread writer{[&] { write_all(pair.first, sent); }};
    CHECK((read(pair.first, sent.size()) == sent));
    writer.join();
    peer.join();
    CHECK((heard == sent));
  }
  CHECK(seen.size() > 2 * sent.size());
  for (const char* word : {"concerns", "nobody", "another"}) CHECK(seen.find(word) == std::string::npos);
}

TEST_CASE("a side that does not read holds up the one that writes, and nothing is lost for it") {
  Pair pair;
  REQUIRE(pair.ready());
  const std::string sent = text(16 * mebibyte);
  std::size_t written = 0;
  // Nothing to wait for but that nothing happens: a stream without bounds takes all of it.
  for (auto last = Clock::now(); written < sent.size() && Clock::now() - last < 300ms;) {
    const ssize_t now = ::send(pair.first.get(), sent.data() + written, sent.size() - written, MSG_NOSIGNAL);
    if (now > 0) {
      written += static_cast<std::size_t>(now);
      last = Clock::now();
    }
  }
  CHECK(written < 4 * mebibyte);
  std::thread writer{[&] { write_all(pair.first, std::string_view{sent}.substr(written)); }};
  CHECK((read(pair.second, sent.size()) == sent));
  writer.join();
}

TEST_CASE("bytes written before an end arrive before it, whichever side ends") {
  for (const bool client_ends : {true, false}) {
    Pair pair;
    REQUIRE(pair.ready());
    Descriptor& leaver = client_ends ? pair.first : pair.second;
    Descriptor& other = client_ends ? pair.second : pair.first;
    const std::string sent = text(mebibyte / 8);
    REQUIRE(write_all(other, "never read"));
    REQUIRE(write_all(leaver, sent));
    leaver.reset();
    CHECK((read(other, sent.size()) == sent));
    CHECK(has_ended(other));
    CHECK(write_all(other, "as on TCP, the first write after the end is lost without a word"));
    other.reset();
    CHECK(await([&] { return pair.one->count() == 0 && pair.other->count() == 0; }));
  }
}

TEST_CASE("bytes written before an end arrive although the other side does not stop sending") {
  auto wire = connected_tcp_sockets();
  Pair pair{key_of(1), std::move(wire)};
  REQUIRE(pair.ready());
  const std::string chatter = text(4096);
  const auto talk = [&] { return ::send(pair.second.get(), chatter.data(), chatter.size(), MSG_NOSIGNAL) > 0; };
  for (std::size_t said = 0; said < 4 * mebibyte;
       said += chatter.size())  // more than the first takes, who does not read
    if (!talk() && !wait_for(pair.second, POLLOUT, 100ms)) break;
  std::atomic<bool> enough{false};
  std::thread talker([&] {
    while (!enough)
      if (!talk()) wait_for(pair.second, POLLOUT, 1ms);
  });
  const std::string sent = text(mebibyte / 2);  // more than the second side's socket takes before it is read
  CHECK(write_all(pair.first, sent));
  pair.first.reset();
  // An end that closed at once would have lost by now the data that waits to be sent.
  for (const auto end = Clock::now() + 300ms; pair.one->count() > 0 && Clock::now() < end;) std::this_thread::yield();
  CHECK((read(pair.second, sent.size()) == sent));
  CHECK(has_ended(pair.second));
  enough = true;
  talker.join();
  pair.second.reset();
  CHECK(await([&] { return pair.one->count() == 0 && pair.other->count() == 0; }));
}

TEST_CASE("a connection that breaks ends the user's, before and after the stream is there") {
  for (const bool early : {true, false}) {
    auto wire = connected_sockets();
    const Descriptor spare{::dup(wire.second.get())};
    Pair pair{key_of(1), std::move(wire)};
    if (!early) REQUIRE(pair.ready());
    ::shutdown(spare.get(), SHUT_RDWR);
    if (early) {
      int error = wait_until_ready(pair.first);
      if (error == 0) error = has_ended(pair.first) ? ECONNRESET : 0;  // it was quicker
      CHECK(error == ECONNRESET);
    } else {
      CHECK(has_ended(pair.first));
      CHECK(has_ended(pair.second));
    }
    pair.first.reset();
    pair.second.reset();
    CHECK(await([&] { return pair.one->count() == 0 && pair.other->count() == 0; }));
  }
}

TEST_CASE("a user can look at the connection behind its end, and learns why it has ended") {
  auto wire = connected_tcp_sockets();
  const Descriptor first{::dup(wire.first.get())}, second{::dup(wire.second.get())};
  Pair pair{key_of(1), std::move(wire)};
  REQUIRE(pair.ready());
  const auto inode = [](const Descriptor& descriptor) {
    struct ::stat status {};
    return ::fstat(descriptor.get(), &status) == 0 ? status.st_ino : 0;
  };
  const Descriptor twin{::dup(pair.first.get())};
  CHECK(inode(pair.one->connection_behind(pair.first)) == inode(first));
  CHECK(inode(pair.one->connection_behind(twin)) == inode(first));
  CHECK(inode(pair.other->connection_behind(pair.second)) == inode(second));
  CHECK(!pair.one->connection_behind(first));
  CHECK(pair.one->error_behind(pair.first) == 0);

  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  REQUIRE(::connect(second.get(), &nowhere, sizeof nowhere) == 0);  // resets the connection
  CHECK(has_ended(pair.first));
  CHECK(pair.one->error_behind(pair.first) == ECONNRESET);
  CHECK(pair.one->error_behind(twin) == ECONNRESET);
  CHECK(await([&] { return !pair.one->connection_behind(pair.first); }));
}

TEST_CASE("sides with different keys get no encrypted stream") {
  Pair pair{key_of(2)};
  CHECK(wait_until_ready(pair.second) == ECONNRESET);
  CHECK(wait_until_ready(pair.first) == ECONNRESET);
}

TEST_CASE("a byte changed on the path ends the connection, and arrives nowhere") {
  std::atomic<bool> change{false};
  Path path{[&](std::string& bytes, bool from_client) {
    if (change && from_client) bytes[bytes.size() / 2] ^= 1;
  }};
  Pair pair{key_of(1), std::move(path.client), std::move(path.server)};
  REQUIRE(pair.ready());
  REQUIRE(write_all(pair.first, "as it is"));
  CHECK(read(pair.second, 8) == "as it is");
  change = true;
  REQUIRE(write_all(pair.first, "as it is"));
  CHECK(has_ended(pair.second));
  CHECK(has_ended(pair.first));
}

TEST_CASE("a client that speaks no TLS, or says nothing, gets no encrypted stream, and the user can leave") {
  TlsProxies tls_proxies;
  for (const Side side : {Side::client, Side::server}) {
    auto [wire, stranger] = connected_sockets();
    const Descriptor end = tls_proxies.encrypt(std::move(wire), side, key_of(1));
    REQUIRE(write_all(stranger, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    CHECK(wait_until_ready(end) == ECONNRESET);
  }
  for (const Side side : {Side::client, Side::server}) {
    auto [wire, stranger] = connected_sockets();
    Descriptor end = tls_proxies.encrypt(std::move(wire), side, key_of(1));
    CHECK(TlsProxies::is_ready(end.get()) == EAGAIN);
    end.reset();
    if (side == Side::server) CHECK(has_ended(stranger));
    CHECK(await([&] { return tls_proxies.count() == 0; }));
  }
}

namespace {

/// A server that has a certificate which it made itself, but not the key. Returns whether it got a client.
bool impersonate(Descriptor socket) {
  ::signal(SIGPIPE, SIG_IGN);  // OpenSSL's own sockets write plainly
  ::fcntl(socket.get(), F_SETFL, 0);
  const std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context{::SSL_CTX_new(::TLS_server_method()),
                                                                    ::SSL_CTX_free};
  const std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)> key{::EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"),
                                                                  ::EVP_PKEY_free};
  const std::unique_ptr<X509, decltype(&::X509_free)> certificate{::X509_new(), ::X509_free};
  ::X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  ::X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  ::X509_set_pubkey(certificate.get(), key.get());
  REQUIRE(::X509_sign(certificate.get(), key.get(), nullptr) > 0);
  REQUIRE(::SSL_CTX_use_certificate(context.get(), certificate.get()) == 1);
  REQUIRE(::SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1);
  const std::unique_ptr<SSL, decltype(&::SSL_free)> ssl{::SSL_new(context.get()), ::SSL_free};
  ::SSL_set_fd(ssl.get(), socket.get());
  return ::SSL_accept(ssl.get()) == 1;
}

}  // namespace

TEST_CASE("a certificate is no substitute for the key") {
  TlsProxies tls_proxies;
  auto [wire, stranger] = connected_sockets();
  const Descriptor end = tls_proxies.encrypt(std::move(wire), Side::client, key_of(1));
  CHECK_FALSE(impersonate(std::move(stranger)));
  CHECK(wait_until_ready(end) == ECONNRESET);
}

}  // namespace tutti::testing
