// One client of a TCP store's server.
//
// A connection is unidentified until it has proved that it knows the secret, if there is one, and its first five bytes
// then are those of `validate`. Then it alternates:
//
//   auth --proof--> (encrypted -->) accepted: reading --request--> serve --answer--> writing --all sent--> reading
//                                                         |
//                                                         +--wait--> reading on (for cancel_wait, or the end) until the
//                                                         keys are there
//
// While an answer is being written nothing is read, so a client that does not read cannot make us collect answers.

#include "rendezvous/tcp_connection.h"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/store_auth.h"

namespace tutti::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using asio::posix::stream_descriptor;

class StoreConnection final : public Connection,
                              public StoreService::Client,
                              public std::enable_shared_from_this<StoreConnection> {
 public:
  StoreConnection(ConnectionHost& host, std::uint64_t number, asio::io_context& context, Descriptor socket)
      : host_(host),
        number_(number),
        limits_(host.limits()),
        socket_(context, socket.get()),
        parser_(limits_.message_bytes) {
    socket.release();
    if (!host.key().empty()) auth_.emplace(host.key(), host.encrypts());
  }

  void start() override { read_later(); }

  void stop_waiting() override {
    guarded([&] {
      answer_.push_back(answer_stop_waiting);
      write();
    });
  }

  Clock::time_point begin() const override { return begin_; }

  std::optional<Clock::time_point> deadline() const override {
    if (!identified_) return begin_ + limits_.identify;
    if (parser_.in_request() || !answer_.empty()) return last_progress_ + limits_.stall;
    return std::nullopt;
  }

  std::optional<Clock::time_point> idle_since() const override {
    const bool busy = !identified_ || parser_.in_request() || !answer_.empty();
    return busy || host_.service().is_waiting(*this) ? std::nullopt : std::optional{last_progress_};
  }

  void close() override {
    if (closed_) return;
    const auto self = shared_from_this();  // drop() may release the last other reference
    closed_ = true;
    host_.budget().change(held_, 0);
    asio::error_code ignored;
    socket_.close(ignored);
    host_.drop(number_);
    host_.service().leave(*this);  // others may be told of it, and end as well
  }

 private:
  net::SocketView view() { return net::SocketView{socket_.native_handle()}; }
  void touch() { last_progress_ = Clock::now(); }

  void read_later() {
    if (closed_ || reading_) return;
    reading_ = true;
    socket_.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](const asio::error_code& failed) {
      self->reading_ = false;
      if (self->closed_) return;
      if (failed) return self->close();
      self->guarded([&] { self->auth_ ? self->greet() : self->read(); });
    });
  }

  /// Failures of one client (such as lack of memory) must not reach the others.
  template <class Body>
  void guarded(Body body) {
    try {
      body();
    } catch (const std::exception&) {
      close();
    }
  }

  /// Until the client has proved itself, nothing that it sends is parsed, and only the few bytes of a proof are kept.
  void greet() {
    switch (auth_->advance(view())) {
      case StoreAuth::Step::wait_to_read:
        return read_later();
      case StoreAuth::Step::wait_to_write:
        return write_later();
      case StoreAuth::Step::encrypt:
        return encrypt(host_.tls_proxies());
      case StoreAuth::Step::admitted:
        auth_.reset();
        return read_later();
      case StoreAuth::Step::refused:
        if (auth_->was_plain()) host_.count_unproved();
        return close();
    }
  }

  void encrypt(TlsProxies& tls_proxies) {
    Descriptor end = tls_proxies.encrypt(Descriptor{socket_.release()}, auth_->handshake());
    if (!end) return close();
    socket_.assign(end.get());
    end.release();
    read_later();
  }

  void read() {
    const std::span<char> buffer = host_.receive_buffer();
    const net::Moved moved = net::read_some(view(), std::as_writable_bytes(buffer));
    if (moved.error == EAGAIN) return read_later();
    if (moved.error != 0) return close();
    touch();
    digest({buffer.data(), moved.bytes});
    if (deadline()) host_.watch_deadlines();
    if (!closed_ && answer_.empty()) read_later();
  }

  /// Serves the requests in `bytes`; those that follow an unfinished answer are kept for later.
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
    account();  // the parser's bytes now belong to the request, and later to the table or to a wait
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

  /// Sends as much of the answer as the socket takes now, and the rest when it is writable.
  void write() {
    while (!closed_ && sent_ < answer_.size()) {
      const net::Moved moved = net::write_some(view(), std::as_bytes(std::span{answer_}.subspan(sent_)));
      if (moved.failed()) return close();
      if (moved.error == EAGAIN) return write_later();
      sent_ += moved.bytes;
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
      self->guarded([&] { self->auth_ ? self->greet() : self->write_on(); });
    });
  }

  void write_on() {
    write();
    if (closed_ || !answer_.empty()) return;
    const std::string rest = std::exchange(rest_, {});
    digest(rest);
    if (!closed_ && answer_.empty()) read_later();
  }

  ConnectionHost& host_;
  const std::uint64_t number_;
  const ServerLimits& limits_;
  stream_descriptor socket_;
  std::optional<StoreAuth> auth_;  // until the client is accepted
  RequestParser parser_;
  std::string answer_;  // not sent yet, from sent_ on
  std::size_t sent_ = 0;
  std::string rest_;      // received after the request whose answer is being written
  std::size_t held_ = 0;  // part of the budget
  bool identified_ = false;
  bool reading_ = false;
  bool closed_ = false;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_progress_ = begin_;
};

}  // namespace

std::shared_ptr<Connection> make_connection(ConnectionHost& host, std::uint64_t number, asio::io_context& context,
                                            Descriptor socket) {
  return std::make_shared<StoreConnection>(host, number, context, std::move(socket));
}

}  // namespace tutti::rendezvous
