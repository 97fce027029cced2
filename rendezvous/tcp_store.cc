// The client of a TCP store: ours or PyTorch's. One request at a time on one connection, plain blocking calls with
// deadlines. To meet it needs only what a server of PyTorch 2.4 has: no ping, no queue, no extension.
//
// Keys are sent with a "/" in front, as PyTorch's client sends them, so that programs in both languages see the same
// keys.

#include "rendezvous/tcp_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "lib/base/clocks.h"
#include "lib/security/job_secret.h"
#include "rendezvous/limits.h"
#include "rendezvous/socket_owner.h"
#include "rendezvous/store_auth.h"
#include "rendezvous/store_errors.h"
#include "rendezvous/store_socket.h"
#include "rendezvous/tcp_protocol.h"

namespace tutti {
namespace rendezvous {
namespace {

using Clock = std::chrono::steady_clock;

/// How long the server may take to confirm that a wait is over, after the wait's timeout.
constexpr std::chrono::seconds grace{2};

class TcpStore final : public Store {
 public:
  TcpStore(const Endpoint& endpoint, Milliseconds timeout, AccessPolicy access_policy)
      : endpoint_(endpoint), access_policy_(std::move(access_policy)) {
    const auto end = deadline_after(timeout);
    Store::set_timeout(timeout);
    socket_ = connect_to(endpoint, end);
    if (has_secret())
      greet(endpoint, store_key(access_policy_.secret), end);
    else if (!access_policy_.insecure)
      refuse_stranger();
    send(StoreMessage{StoreOp::validate}.u32(store_magic), "auth", deadline());
  }

  /// A store without a secret asks the kernel who made this connection, which the kernel knows only while it is open.
  /// Keys set by a client that closes at once would be lost, so it waits for one answer first.
  ~TcpStore() override {
    constexpr std::chrono::seconds at_most{2};
    if (has_secret() || answered_ || !lost_.empty() || !mark_.is_here()) return;
    try {
      set_timeout(at_most);
      key_count();
    } catch (const Error&) {
      // The server has gone, or has refused this client. There is nobody to report it to.
    }
  }

  void set(std::string_view key, std::string_view value) override {
    check_value(key, value);
    send(with_key(StoreOp::set, key).text(value), "set", deadline());
  }

  std::string get(std::string_view key) override {
    const std::string name{key};
    wait({&name, 1});
    send(with_key(StoreOp::get, key), "get", deadline());
    return recv_text("get", deadline());
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    send(with_key(StoreOp::add, key).i64(delta), "add", deadline());
    return recv_number("add (is the value a number?)");
  }

  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    check_value(key, expected);
    check_value(key, desired);
    send(with_key(StoreOp::compare_set, key).text(expected).text(desired), "compare_set", deadline());
    return recv_text("compare_set", deadline());
  }

  void wait(std::span<const std::string> keys) override { wait_for(keys, timeout()); }

  void wait_for(std::span<const std::string> keys, Milliseconds timeout) override {
    const auto end = deadline_after(timeout);
    for_batches(keys, [&](std::span<const std::string> batch) {
      send(with_keys(StoreOp::wait, batch), "wait", end);
      if (!await_stop(end)) throw waited_in_vain(where_, keys, timeout);
    });
  }

  bool check(std::span<const std::string> keys) override {
    bool all = true;
    for_batches(keys, [&](std::span<const std::string> batch) {
      send(with_keys(StoreOp::check, batch), "check", deadline());
      all = recv_byte("check", deadline()) == answer_ready && all;
    });
    return all;
  }

  bool erase(std::string_view key) override {
    send(with_key(StoreOp::erase, key), "erase", deadline());
    return recv_number("erase") != 0;
  }

  std::int64_t key_count() override {
    send(StoreMessage{StoreOp::key_count}, "key_count", deadline());
    return recv_number("key_count");
  }

  void append(std::string_view key, std::string_view value) override {
    check_value(key, value);
    send(with_key(StoreOp::append, key).text(value), "append", deadline());
  }

  std::vector<std::string> multi_get(std::span<const std::string> keys) override {
    constexpr const char* during =
        "multi_get (of at most 64 MiB together, or 16 MiB from tutti run's store at MASTER_PORT)";
    wait(keys);
    std::vector<std::string> values;
    for_batches(keys, [&](std::span<const std::string> batch) {
      const auto end = deadline();
      send(with_keys(StoreOp::multi_get, batch), during, end);
      for (std::size_t i = 0; i < batch.size(); ++i) values.push_back(recv_text(during, end));
    });
    return values;
  }

  void multi_set(std::span<const KeyValue> pairs) override {
    for (const auto& [key, value] : pairs) check_value(key, value);
    for_batches(pairs, [&](std::span<const KeyValue> batch) {
      StoreMessage message{StoreOp::multi_set};
      message.u64(batch.size());
      for (const auto& [key, value] : batch) message.text("/" + key).text(value);
      send(message, "multi_set", deadline());
    });
  }

  /// A push is not answered, so a server that has no queues is found out before the first.
  void queue_push(std::string_view name, std::string_view value) override {
    check_value(name, value);
    if (!has_queues_) queue_length(name);
    send(with_key(StoreOp::queue_push, name).text(value), "queue_push", deadline());
  }

  std::optional<std::string> queue_try_pop(std::string_view name) override {
    if (ask_queue(StoreOp::queue_pop, name) == 0) return std::nullopt;
    return recv_text("queue_pop", deadline());
  }

  std::int64_t queue_length(std::string_view name) override { return ask_queue(StoreOp::queue_len, name); }

  std::vector<std::string> list_keys() override {
    constexpr const char* during = "list_keys (which PyTorch's servers have since 2.10, and not for very many keys)";
    const auto end = deadline();
    send(StoreMessage{StoreOp::list_keys}, during, end);
    const std::int64_t count = recv_number(during);
    if (count < 0) throw too_long_list(where_, -count);
    std::vector<std::string> keys;
    for (std::int64_t i = 0; i < count; ++i) {
      std::string key = recv_text(during, end);
      if (key.starts_with('/')) keys.push_back(key.substr(1));  // those without it are PyTorch's own
    }
    return keys;
  }

  std::shared_ptr<Store> clone() override {
    require_own_process(mark_, where_);
    return std::make_shared<TcpStore>(endpoint_, timeout(), access_policy_);
  }

 private:
  bool has_secret() const { return !access_policy_.secret.empty(); }

  /// Tries a few times, because a server with too many strangers also closes connections that were about to prove
  /// themselves.
  void greet(const Endpoint& endpoint, const Secret& key, Deadline end) {
    for (int attempts_left = 3; prove_once(key, end) == Proof::closed; socket_ = connect_to(endpoint, end)) {
      if (--attempts_left == 0) lose_unproved();
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
    }
  }

  Proof prove_once(const Secret& key, Deadline end) {
    const Proof proof = prove(socket_, key, end, access_policy_.tls_proxies.get());
    if (proof == Proof::refused) lose_unproved();
    if (proof == Proof::timed_out)
      lose("challenge", "does not answer; it may be stopped or overloaded, or not be a store of tutti");
    return proof;
  }

  [[noreturn]] void lose_unproved() {
    lose("challenge",
         fmt::format(
             "did not prove that it knows this job's secret: it was started without one or with another, or is "
             "not tutti's. Start it with the same TUTTI_SECRET or TUTTI_SECRET_FILE, or unset those here. Or one "
             "side encrypts and the other does not: TUTTI_TLS, which is {} here, must be the same there",
             access_policy_.tls_proxies ? "on" : "off"));
  }

  /// Another user of this host may have taken the port on loopback, to give the ranks addresses of its own.
  void refuse_stranger() {
    const std::optional<SocketOwner> owner = SocketOwners{}.of_server(socket_.get());
    if (!owner || owner->is_trusted()) return;
    errno = 0;  // nothing failed here
    if (!owner->open) lose_closed("auth");
    lose("auth",
         fmt::format("belongs to user {} of this host, and no secret shows that it is of this job. Take another "
                     "port, or give all ranks a secret (TUTTI_SECRET or TUTTI_SECRET_FILE), or trust all "
                     "users of this host (TUTTI_INSECURE=1)",
                     owner->user));
  }

  Deadline deadline() const { return deadline_after(timeout()); }

  static StoreMessage with_key(StoreOp op, std::string_view key) {
    check_key(key);
    StoreMessage message{op};
    message.text("/" + std::string{key});
    return message;
  }

  static StoreMessage with_keys(StoreOp op, std::span<const std::string> keys) {
    StoreMessage message{op};
    message.u64(keys.size());
    for (const std::string& key : keys) {
      check_key(key);
      message.text("/" + key);
    }
    return message;
  }

  static std::size_t bytes_of(const std::string& key) { return sizeof(std::uint64_t) + 1 + key.size(); }
  static std::size_t bytes_of(const KeyValue& pair) {
    return bytes_of(pair.first) + sizeof(std::uint64_t) + pair.second.size();
  }

  /// Calls body(part) for as many elements at a time as any server takes, by their number and by their bytes.
  template <class T, class Body>
  static void for_batches(std::span<const T> all, Body body) {
    constexpr std::size_t most_bytes = max_value_bytes;  // or one element, if that is longer
    while (!all.empty()) {
      std::size_t count = 1;
      for (std::size_t bytes = bytes_of(all[0]); count < std::min(all.size(), max_keys_per_request); ++count) {
        bytes += bytes_of(all[count]);
        if (bytes > most_bytes) break;
      }
      body(all.first(count));
      all = all.subspan(count);
    }
  }

  /// The number of values before the request.
  std::int64_t ask_queue(StoreOp op, std::string_view name) {
    constexpr const char* during = "queues (which PyTorch's servers have since 2.8, and only with libuv)";
    send(with_key(op, name), during, deadline());
    const std::int64_t count = recv_count(during);
    has_queues_ = true;
    return count;
  }

  /// True if all keys came. At the deadline the wait is cancelled. If the keys come at that moment, the server has sent
  /// its 0 before our request to cancel, and also confirms the request.
  bool await_stop(Deadline end) {
    char answer = 0;
    if (try_recv({&answer, 1}, "wait", end)) return expect(answer, answer_stop_waiting);
    const auto last = Clock::now() + grace;
    send(StoreMessage{StoreOp::cancel_wait}, "cancel_wait", last);
    answer = recv_byte("cancel_wait", last);
    if (answer == answer_wait_canceled) return false;
    expect(answer, answer_stop_waiting);
    return expect(recv_byte("cancel_wait", last), answer_wait_canceled);
  }

  bool expect(char answer, char expected) {
    if (answer != expected) lose("wait", fmt::format("answered {:#04x}; does it speak this protocol?", answer));
    return true;
  }

  void send(const StoreMessage& message, const char* during, Deadline end) {
    require_own_process(mark_, where_);
    if (!lost_.empty()) throw Error{ErrorCode::rendezvous, lost_};
    switch (transfer([&] { return send_all(socket_, message.bytes(), end); })) {
      case Transfer::done:
        return;
      case Transfer::timed_out:
        lose(during, "accepts no more bytes; it may be stopped or overloaded");
      case Transfer::closed:
        lose_closed(during);
    }
  }

  /// After a part of a request the next one would be taken for its rest, and an answer that nobody waited for would be
  /// taken for the next one.
  template <class Work>
  Transfer transfer(const Work& work) {
    try {
      return work();
    } catch (const Error& interrupted) {
      lost_ = interrupted.what();
      throw;
    }
  }

  /// False at the deadline, if nothing has come by then.
  bool try_recv(std::span<char> bytes, const char* during, Deadline end) {
    const Transfer received = transfer([&] { return receiver_.recv_all(bytes, end); });
    if (received == Transfer::closed) lose_closed(during);
    answered_ = answered_ || received == Transfer::done;
    return received == Transfer::done;
  }

  void recv(std::span<char> bytes, const char* during, Deadline end) {
    if (!try_recv(bytes, during, end)) lose(during, "does not answer; it may be stopped or overloaded");
  }

  char recv_byte(const char* during, Deadline end) {
    char byte = 0;
    recv({&byte, 1}, during, end);
    return byte;
  }

  std::int64_t recv_number(const char* during) {
    std::array<char, sizeof(std::int64_t)> bytes{};
    recv(bytes, during, deadline());
    std::int64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  }

  std::int64_t recv_count(const char* during) {
    const std::int64_t count = recv_number(during);
    if (count < 0) lose(during, fmt::format("counts to {}; does it speak this protocol?", count));
    return count;
  }

  std::string recv_text(const char* during, Deadline end) {
    std::array<char, sizeof(std::uint64_t)> head{};
    recv(head, during, end);
    std::uint64_t length = 0;
    std::memcpy(&length, head.data(), sizeof length);
    if (length > max_value_bytes)
      lose(during, fmt::format("announces a value of {} bytes; does it speak this protocol?", length));
    std::string text(static_cast<std::size_t>(length), '\0');
    recv(text, during, end);
    return text;
  }

  [[noreturn]] void lose_closed(const char* during) {
    lose(during,
         fmt::format(
             "closed the connection ({}): it ended, or refused the request, or is not a store at all{}",
             errno == 0 ? "end of stream" : std::strerror(errno),
             has_secret()
                 ? ""
                 : ", or belongs to another user of this host, or wants a secret (TUTTI_SECRET or TUTTI_SECRET_FILE)"));
  }

  /// After a failure in the middle of an exchange the next bytes have no known meaning, so the connection cannot be
  /// used further.
  [[noreturn]] void lose(const char* during, const std::string& why) {
    lost_ = fmt::format("{}, {}: the server {}.", where_, during, why);
    socket_ = Descriptor{};
    throw Error{ErrorCode::rendezvous, lost_};
  }

  const Endpoint endpoint_;
  const AccessPolicy access_policy_;
  const std::string where_ = "store " + to_string(endpoint_);
  bool answered_ = false;    // the server has served this client
  bool has_queues_ = false;  // the server is known to have them
  const ForkMark mark_;
  Descriptor socket_;
  Receiver receiver_{socket_};
  std::string lost_;  // why the connection was given up, if it was
};

}  // namespace

std::shared_ptr<Store> connect_tcp_store(const Endpoint& endpoint, Store::Milliseconds timeout,
                                         AccessPolicy access_policy) {
  return std::make_shared<TcpStore>(endpoint, timeout, std::move(access_policy));
}

}  // namespace rendezvous

std::shared_ptr<Store> tutti::tcp_store(const std::string& host, std::uint16_t port, Store::Milliseconds timeout,
                                        const std::string& secret_file) {
  const Secret secret = job_secret(secret_file);
  return rendezvous::connect_tcp_store({rendezvous::without_brackets(host), port}, timeout,
                                       {secret, insecure_allowed(), job_tls_proxies(secret)});
}

}  // namespace tutti
