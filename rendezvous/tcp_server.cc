// The TCP store's server: one thread, one Asio loop, one small state machine per connection.
//
// A connection is unidentified until its first five bytes are those of `validate`. Then it alternates:
//
//   reading --request--> serve --answer--> writing --all sent--> reading
//                          |
//                          +--wait--> reading on (for cancel_wait, or the end) until the keys are there
//
// While an answer is being written nothing is read, so a client that does not read cannot make us collect answers. Each
// state that a client can prolong (unidentified, in the middle of a request, in the middle of an answer) has a
// deadline, kept by one timer for all. Between requests a connection may idle for ever: that is what stores are for.

#include "rendezvous/tcp_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <cerrno>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "rendezvous/socket.h"
#include "rendezvous/tcp_service.h"

namespace tutti::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using asio::posix::stream_descriptor;

/// What a connection needs from the server it belongs to.
class Host {
 public:
  virtual StoreService& service() = 0;
  virtual Budget& budget() = 0;
  virtual std::span<char> receive_buffer() = 0;
  virtual void identified(std::uint64_t number) = 0;
  virtual void count_request() = 0;
  virtual void watch_deadlines() = 0;
  /// Forgets the connection; it lives on until its last handler has run.
  virtual void drop(std::uint64_t number) = 0;

 protected:
  ~Host() = default;
};

class Connection final : public StoreService::Client, public std::enable_shared_from_this<Connection> {
 public:
  Connection(Host& host, std::uint64_t number, asio::io_context& context, Descriptor socket, const ServerLimits& limits)
      : host_(host), number_(number), limits_(limits), socket_(context, socket.get()), parser_(limits.message_bytes) {
    socket.release();
  }

  void start() { read_later(); }

  void stop_waiting() override {
    guarded([&] {
      answer_.push_back(answer_stop_waiting);
      write();
    });
  }

  Clock::time_point begin() const { return begin_; }

  /// When the client loses its connection unless it moves on; empty when it may take its time.
  std::optional<Clock::time_point> deadline() const {
    if (!identified_) return last_progress_ + limits_.identify;
    if (parser_.in_request() || !answer_.empty()) return last_progress_ + limits_.stall;
    return std::nullopt;
  }

  void close() {
    if (closed_) return;
    const auto self = shared_from_this();  // drop() may let go of the last other one
    closed_ = true;
    host_.service().forget(*this);
    host_.budget().change(held_, 0);
    asio::error_code ignored;
    socket_.close(ignored);
    host_.drop(number_);
  }

 private:
  void touch() { last_progress_ = Clock::now(); }

  void read_later() {
    if (closed_ || reading_) return;
    reading_ = true;
    socket_.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](const asio::error_code& failed) {
      self->reading_ = false;
      if (self->closed_) return;
      if (failed) return self->close();
      self->guarded([&] { self->read(); });
    });
  }

  /// Whatever goes wrong with one client (memory, say) must not reach the others.
  template <class Body>
  void guarded(Body body) {
    try {
      body();
    } catch (const std::exception&) {
      close();
    }
  }

  void read() {
    const std::span<char> buffer = host_.receive_buffer();
    const ssize_t got = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got == 0) return close();
    if (got < 0) return errno == EAGAIN || errno == EINTR ? read_later() : close();
    touch();
    digest({buffer.data(), static_cast<std::size_t>(got)});
    if (deadline()) host_.watch_deadlines();
    if (!closed_ && answer_.empty()) read_later();
  }

  /// Serves the requests in `bytes`; what must wait behind an unfinished answer is kept.
  void digest(std::string_view bytes) {
    while (!closed_ && !bytes.empty()) {
      if (!answer_.empty()) {
        rest_.assign(bytes);
        break;
      }
      if (!identified_ && !parser_.in_request() && bytes.front() != static_cast<char>(StoreOp::validate))
        return close();
      const RequestParser::Status status = parser_.feed(bytes);
      if (status == RequestParser::Status::refused) return close();
      if (status == RequestParser::Status::complete) serve(parser_.take());
    }
    if (!closed_ && !account()) close();
  }

  void serve(Request request) {
    if (request.op != StoreOp::validate) host_.count_request();
    account();  // what the parser held is now the request's, and will be the table's or a wait's
    const StoreService::Outcome outcome = host_.service().serve(*this, std::move(request), answer_);
    if (outcome == StoreService::Outcome::refused) return close();
    if (!identified_) {
      identified_ = true;
      host_.identified(number_);
    }
    if (!account()) return close();
    write();
  }

  bool account() { return host_.budget().change(held_, parser_.held_bytes() + answer_.size() + rest_.size()); }

  /// Sends as much of the answer as the socket takes now, the rest when it can.
  void write() {
    while (!closed_ && sent_ < answer_.size()) {
      const ssize_t n =
          ::send(socket_.native_handle(), answer_.data() + sent_, answer_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return write_later();
      if (n < 0) return close();
      sent_ += static_cast<std::size_t>(n);
      touch();
    }
    answer_.clear();
    answer_.shrink_to_fit();
    sent_ = 0;
  }

  void write_later() {
    host_.watch_deadlines();
    socket_.async_wait(stream_descriptor::wait_write, [self = shared_from_this()](const asio::error_code& failed) {
      if (self->closed_) return;
      if (failed) return self->close();
      self->guarded([&] { self->write_on(); });
    });
  }

  void write_on() {
    write();
    if (closed_ || !answer_.empty()) return;
    const std::string rest = std::exchange(rest_, {});
    digest(rest);
    if (!closed_ && answer_.empty()) read_later();
  }

  Host& host_;
  const std::uint64_t number_;
  const ServerLimits& limits_;
  stream_descriptor socket_;
  RequestParser parser_;
  std::string answer_;  // not sent yet, from sent_ on
  std::size_t sent_ = 0;
  std::string rest_;      // received behind the request whose answer is being written
  std::size_t held_ = 0;  // of the budget
  bool identified_ = false;
  bool reading_ = false;
  bool closed_ = false;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_progress_ = begin_;
};

}  // namespace

class TcpStoreServer::Impl final : public Host {
 public:
  Impl(const Endpoint& endpoint, const ServerLimits& limits, Deadline deadline)
      : limits_(limits), budget_(limits.total_bytes), service_(budget_, limits.message_bytes), listener_(context_) {
    Descriptor socket = listen_on(endpoint, deadline);
    const SocketAddress address = local_address(socket);
    endpoint_ = address.endpoint();
    on_loopback_ = address.is_loopback();
    listener_.assign(socket.release());
    accept_later();
    start_thread();
  }

  ~Impl() {
    context_.stop();
    thread_.join();
    // Each close() takes its connection out of the map.
    while (!connections_.empty()) connections_.begin()->second->close();
  }

  const Endpoint& endpoint() const { return endpoint_; }
  bool is_on_loopback() const { return on_loopback_; }
  Figures figures() const { return {requests_.load(), connection_count_.load(), memory_bytes_.load()}; }

 private:
  StoreService& service() override { return service_; }
  Budget& budget() override { return budget_; }
  std::span<char> receive_buffer() override { return receive_buffer_; }
  void identified(std::uint64_t number) override { unidentified_.erase(number); }
  void count_request() override { ++requests_; }

  void drop(std::uint64_t number) override {
    unidentified_.erase(number);
    connections_.erase(number);
    publish_figures();
  }

  /// Signals are the user's: his handlers run on his threads.
  void start_thread() {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread{[this] { run(); }};
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void run() {
    while (!context_.stopped()) {
      try {
        context_.run_one();
        publish_figures();
      } catch (const std::exception&) {
        // Out of memory outside of any connection: what was being started is given up, and the others are served on.
      }
    }
  }

  void publish_figures() {
    connection_count_ = connections_.size();
    memory_bytes_ = budget_.used();
  }

  void accept_later() {
    listener_.async_wait(stream_descriptor::wait_read, [this](const asio::error_code& failed) {
      if (!failed) accept();
    });
  }

  void accept() {
    try {
      accept_all();
    } catch (const std::exception&) {
      pause_accepting();
    }
  }

  void accept_all() {
    for (;;) {
      if (!make_room()) return pause_accepting();
      Descriptor socket{::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (socket) {
        add(std::move(socket));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return accept_later();
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        return pause_accepting();
      }
      // Anything else concerns the one connection that was about to be accepted.
    }
  }

  /// False when those who come now must wait until one of those before them has said what he is, or had time enough to.
  bool make_room() {
    if (unidentified_.size() < limits_.unidentified) return true;
    const auto oldest = connections_.at(*unidentified_.begin());
    if (Clock::now() < oldest->begin() + limits_.grace) return false;
    oldest->close();
    return true;
  }

  /// Those who come meanwhile wait in the kernel's queue.
  void pause_accepting() {
    accept_timer_.expires_after(std::chrono::milliseconds{20});
    accept_timer_.async_wait([this](const asio::error_code& failed) {
      if (!failed) accept();
    });
  }

  void add(Descriptor socket) {
    if (connections_.size() >= limits_.connections) return;
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const std::uint64_t number = next_number_++;
    const auto connection = std::make_shared<Connection>(*this, number, context_, std::move(socket), limits_);
    connections_.emplace(number, connection);
    unidentified_.insert(number);
    connection->start();
    watch_deadlines();
  }

  /// Looks after all deadlines a few times within the shortest of them, as long as there is one.
  void watch_deadlines() override {
    if (watching_) return;
    watching_ = true;
    watch_timer_.expires_after(std::clamp(std::min(limits_.identify, limits_.stall) / 4, std::chrono::milliseconds{5},
                                          std::chrono::milliseconds{1000}));
    watch_timer_.async_wait([this](const asio::error_code& failed) {
      watching_ = false;
      if (!failed) enforce_deadlines();
    });
  }

  void enforce_deadlines() {
    const auto now = Clock::now();
    bool more = false;
    for (auto it = connections_.begin(); it != connections_.end();) {
      const auto connection = (it++)->second;  // close() takes it out of the map
      const auto deadline = connection->deadline();
      if (!deadline) continue;
      if (*deadline <= now)
        connection->close();
      else
        more = true;
    }
    if (more) watch_deadlines();
  }

  const ServerLimits limits_;
  Endpoint endpoint_;
  bool on_loopback_ = false;
  Budget budget_;
  StoreService service_;
  std::array<char, 65'536> receive_buffer_;
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::size_t> connection_count_{0};
  std::atomic<std::size_t> memory_bytes_{0};

  asio::io_context context_{1};
  stream_descriptor listener_;
  asio::steady_timer accept_timer_{context_};
  asio::steady_timer watch_timer_{context_};
  bool watching_ = false;
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;  // oldest first
  std::set<std::uint64_t> unidentified_;
  std::uint64_t next_number_ = 0;
  std::thread thread_;
};

TcpStoreServer::TcpStoreServer(const Endpoint& endpoint, const ServerLimits& limits, Deadline deadline)
    : impl_(std::make_unique<Impl>(endpoint, limits, deadline)) {}

TcpStoreServer::~TcpStoreServer() = default;

const Endpoint& TcpStoreServer::endpoint() const { return impl_->endpoint(); }

bool TcpStoreServer::is_on_loopback() const { return impl_->is_on_loopback(); }

TcpStoreServer::Figures TcpStoreServer::figures() const { return impl_->figures(); }

}  // namespace tutti::rendezvous
