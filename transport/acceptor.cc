// The acceptor: one thread, one Asio loop, one handshake per candidate.
//
//   listening --accept--> candidate --hello--> answered --proof--> (encrypted -->) accepted: handler, with the socket
//                             |                    |
//                             +---- time is up, wrong, gone, place wanted ----> dropped
//
// Candidates are kept in the order in which they came, so that one timer, for the first of them, serves all.

#include "transport/acceptor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <cerrno>
#include <exception>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/background_thread.h"
#include "lib/base/system_error_text.h"
#include "lib/security/handshake_io.h"
#include "transport/stream_socket.h"
#include "transport/transport.h"

namespace tutti::transport {
namespace {

using asio::posix::stream_descriptor;

constexpr std::chrono::milliseconds pause_without_descriptors{100};
/// After that many turns every connection is accepted that waited in the listener's queue before the first of them.
constexpr int turns_of_a_queue = net::longest_queue / net::accepts_at_once + 1;

/// Waits for a descriptor that it does not own, and forgets it in the end without closing it.
struct Waiter : stream_descriptor {
  using stream_descriptor::stream_descriptor;
  ~Waiter() { part(); }
  void part() {
    if (is_open()) release();
  }
};

/// A connection that has not proved that it belongs to the job. Handlers share it, since a handler may still be called
/// after the candidate has gone.
struct Candidate {
  /// It is admitted for no purpose until Handshake::admit() says which are served.
  Candidate(asio::io_context& context, net::Socket accepted, const Credentials& credentials)
      : socket(std::move(accepted)),
        waiter(context, socket.get()),
        handshake(Handshake::accept(credentials.key, {}, credentials.rank, credentials.tls_proxies != nullptr)),
        tls_proxies(credentials.tls_proxies.get()) {}

  bool gone() const { return !waiter.is_open(); }
  bool silent() { return handshake.incoming().size() == Handshake::hello_size; }

  /// Continues the handshake, encrypting the connection where it says so.
  int advance() {
    const int error = tutti::advance(handshake, socket);
    if (error != 0 || handshake.state() != Handshake::State::proved) return error;
    waiter.part();
    socket = tls_proxies->encrypt(std::move(socket), handshake);
    if (!socket) return errno;
    waiter.assign(socket.get());
    waiting = false;  // the wait for the previous socket has ended
    return tutti::advance(handshake, socket);
  }

  net::Socket socket;
  Waiter waiter;
  Handshake handshake;
  TlsProxies* const tls_proxies;
  const Clock::time_point since = Clock::now();
  bool waiting = false;  ///< a handler waits for the socket
};

using CandidatePointer = std::shared_ptr<Candidate>;

/// All addresses of this host of that family.
net::Address anywhere(const net::Address& like) {
  return *net::parse_address(like.family() == AF_INET6 ? "::" : "0.0.0.0", like.port());
}

std::vector<std::string> hosts_of(const net::Address& first, const std::vector<net::Address>& others) {
  std::vector<std::string> hosts;
  if (others.empty()) return hosts;
  hosts.push_back(first.host());
  for (const net::Address& other : others) hosts.push_back(other.host());
  return hosts;
}

/// Where `listener` is reached: at these hosts, or where it listens if there are none.
std::string text_of(const net::Socket& listener, const std::vector<std::string>& hosts) {
  const net::Address here = net::local_address(listener);
  if (hosts.empty()) return here.text();
  std::string text;
  for (const std::string& host : hosts)
    text += (text.empty() ? "" : ",") + net::parse_address(host, here.port())->text();
  return text;
}

}  // namespace

class Acceptor::Impl {
 public:
  Impl(const net::Address& address, Credentials credentials, AcceptorOptions options, const Log& log)
      : credentials_(std::move(credentials)),
        options_(std::move(options)),
        log_(log),
        listener_(net::listen_at(options_.other_addresses.empty() ? address : anywhere(address), options_.silence)),
        hosts_(hosts_of(address, options_.other_addresses)),
        address_(text_of(listener_, hosts_)),
        is_unix_(address.is_unix()),
        listener_waiter_(context_, listener_.get()) {
    accept_later();
    thread_ = start_thread_without_signals([this] { run(); });
  }

  ~Impl() { close(); }

  void close() noexcept {
    if (!thread_.joinable()) return;
    context_.stop();
    thread_.join();
    for (const CandidatePointer& candidate : candidates_) {
      candidate->waiter.part();  // handlers may keep the candidate a little longer
      candidate->socket.reset();
    }
    candidates_.clear();
    listener_waiter_.part();
    listener_.reset();
    const std::lock_guard lock{mutex_};
    closed_ = true;
    for (const Look& look : std::exchange(looks_, {})) look.done();
  }

  const std::string& address() const { return address_; }
  std::size_t unproved() const { return count_.load(); }

  void serve(Purpose purpose, Handler handler) {
    const std::lock_guard lock{mutex_};
    handlers_.insert_or_assign(purpose, std::move(handler));
    purposes_.add(purpose);
  }

  void dismiss(Purpose purpose) noexcept {
    const std::lock_guard lock{mutex_};
    handlers_.erase(purpose);
    purposes_.remove(purpose);
    std::erase_if(looks_, [purpose](const Look& look) { return look.purpose == purpose; });
  }

  void look(Purpose purpose, const std::function<void()>& done) noexcept {
    try {
      const std::lock_guard lock{mutex_};
      if (!closed_) {
        asio::post(context_, [this, asked = ++asked_] { serve_looks(asked); });
        looks_.push_back({purpose, asked_, done});
        return;
      }
    } catch (const std::exception&) {
    }
    done();
  }

 private:
  struct Look {
    Purpose purpose;
    std::uint64_t number;
    std::function<void()> done;
  };

  /// Serves the looks that were asked for up to number `asked`, after the connections that had come before.
  void serve_looks(std::uint64_t asked, int turns = turns_of_a_queue) {
    if (!accept_some() && turns > 1)
      return asio::post(context_, [this, asked, turns] { serve_looks(asked, turns - 1); });
    for (auto next = candidates_.begin(); next != candidates_.end();) proceed(*next++);
    const std::lock_guard lock{mutex_};
    for (const Look& look : looks_)
      if (look.number <= asked) look.done();
    std::erase_if(looks_, [asked](const Look& look) { return look.number <= asked; });
  }

  void run() {
    for (bool again = false; !context_.stopped();) {
      try {
        if (std::exchange(again, false)) accept_some();
        context_.run_one();
      } catch (const std::exception&) {
        // Out of memory: gives up what was being started, but goes on accepting.
        std::this_thread::sleep_for(pause_without_descriptors);
        again = true;
      }
    }
  }

  // ---- Accepting -------------------------------------------------------------------------------------------------

  void accept_later() {
    if (accepting_) return;
    listener_waiter_.async_wait(stream_descriptor::wait_read, [this](const asio::error_code& failed) {
      accepting_ = false;
      if (!failed) accept_some();
    });
    accepting_ = true;
  }

  /// Returns false if more connections may wait, which are accepted after a turn of the candidates.
  bool accept_some() {
    int error = 0;
    int accepted = 0;
    for (; accepted < net::accepts_at_once; ++accepted) {
      if (candidates_.size() >= options_.candidates && net::is_connection_waiting(listener_) && !make_room()) {
        full_ = true;
        wake_at(candidates_.front()->since + options_.least_patience);
        return true;
      }
      net::Socket socket = accept_from(listener_, options_.congestion);
      if (socket && is_unix_ && net::user_of_peer(socket) != user_) continue;
      if (socket && !hosts_.empty() && !std::ranges::count(hosts_, net::local_address(socket).host())) continue;
      if (socket && !is_unix_) net::keep_alive(socket, options_.lost_after);
      error = socket ? 0 : errno;
      if (net::is_our_own(error) && !net::is_connection_waiting(listener_)) error = EAGAIN;
      if (net::is_our_own(error) && !candidates_.empty() && make_room()) error = 0;
      if (error != 0) break;
      if (!socket) continue;  // there is room for it now
      candidates_.push_back(std::make_shared<Candidate>(context_, std::move(socket), credentials_));
      ++count_;
      proceed(candidates_.back());  // a peer has usually sent its hello by now
    }
    if (error != 0 && error != EAGAIN && error != EWOULDBLOCK) {
      if (!std::exchange(starved_, true))
        log_.warn(
            fmt::format("rank {} cannot accept connections of other ranks: {}", credentials_.rank, refusal(error)));
      wake_at(Clock::now() + pause_without_descriptors);
      return true;
    }
    accept_later();
    if (!candidates_.empty()) wake_at(candidates_.front()->since + options_.patience);
    return accepted < net::accepts_at_once;
  }

  /// Drops a candidate to make room: first one that has sent nothing, and then one that has begun to. At a Unix socket
  /// silence tells nothing, since a connection that has just been made is not held back.
  bool make_room() {
    const auto silent = std::find_if(candidates_.begin(), candidates_.end(),
                                     [this](const auto& candidate) { return !is_unix_ && candidate->silent(); });
    const CandidatePointer first = silent == candidates_.end() ? candidates_.front() : *silent;
    if (silent == candidates_.end() && Clock::now() - first->since < options_.least_patience) return false;
    drop(first);
    return true;
  }

  /// At that time, drops candidates whose time is up and accepts others.
  void wake_at(Clock::time_point time) {
    if (timer_set_ && timer_.expiry() <= time) return;
    timer_.expires_at(time);
    timer_.async_wait([this](const asio::error_code& failed) {
      if (failed) return;  // the timer was set anew
      timer_set_ = false;
      const auto now = Clock::now();
      while (!candidates_.empty() && now - candidates_.front()->since >= options_.patience) drop(candidates_.front());
      accept_some();
    });
    timer_set_ = true;
  }

  // ---- Handshakes ------------------------------------------------------------------------------------------------

  // By value: a reference may point into the list from which the candidate is removed.
  void proceed(const CandidatePointer candidate) {  // NOLINT(performance-unnecessary-value-param)
    if (candidate->gone()) return;
    const std::lock_guard lock{mutex_};  // who is accepted here is handed over before anybody dismisses its purpose
    candidate->handshake.admit(purposes_);
    const int error = candidate->advance();
    if (error == EAGAIN) return proceed_later(candidate);
    if (error != 0 || candidate->handshake.state() != Handshake::State::done) return drop(candidate);
    leave(candidate);
    const Hello& hello = candidate->handshake.hello();
    try {
      handlers_.at(hello.purpose)(hello, std::move(candidate->socket));
    } catch (const std::exception&) {
    }
    candidate->socket.reset();  // unless a handler has taken it
  }

  void proceed_later(const CandidatePointer& candidate) {
    if (candidate->waiting) return;
    const bool writing = !candidate->handshake.outgoing().empty();
    candidate->waiter.async_wait(writing ? stream_descriptor::wait_write : stream_descriptor::wait_read,
                                 [this, candidate](const asio::error_code& failed) {
                                   candidate->waiting = false;
                                   if (!failed) proceed(candidate);
                                 });
    candidate->waiting = true;
  }

  void leave(const CandidatePointer& candidate) {
    candidate->waiter.part();
    std::erase(candidates_, candidate);
    --count_;
    if (std::exchange(full_, false)) asio::post(context_, [this] { accept_some(); });
  }

  void drop(const CandidatePointer candidate) {  // NOLINT(performance-unnecessary-value-param)
    leave(candidate);
    candidate->socket.reset();
  }

  const Credentials credentials_;
  const AcceptorOptions options_;
  const Log log_;
  std::atomic<std::size_t> count_{0};

  std::mutex mutex_;  ///< protects what follows; held while a handler or the end of a look runs
  std::map<Purpose, Handler> handlers_;
  Purposes purposes_;
  std::vector<Look> looks_;
  std::uint64_t asked_ = 0;
  bool closed_ = false;

  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  net::Socket listener_;
  const std::vector<std::string> hosts_;  ///< of which it takes connections, if it listens at all; else empty
  const std::string address_;
  const bool is_unix_;
  const long user_ = static_cast<long>(::geteuid());
  Waiter listener_waiter_;
  asio::steady_timer timer_{context_};
  bool accepting_ = false;
  bool timer_set_ = false;
  bool starved_ = false;                    ///< the log was told
  bool full_ = false;                       ///< connections wait for a free place
  std::list<CandidatePointer> candidates_;  ///< the oldest first
  std::thread thread_;
};

Acceptor::Acceptor(const net::Address& address, Credentials credentials, AcceptorOptions options, const Log& log)
    : impl_(std::make_unique<Impl>(address, std::move(credentials), std::move(options), log)) {}

Acceptor::~Acceptor() = default;

const std::string& Acceptor::address() const { return impl_->address(); }

std::size_t Acceptor::unproved() const { return impl_->unproved(); }

void Acceptor::serve(Purpose purpose, Handler handler) { impl_->serve(purpose, std::move(handler)); }

void Acceptor::dismiss(Purpose purpose) noexcept { impl_->dismiss(purpose); }

void Acceptor::look(Purpose purpose, const std::function<void()>& done) noexcept { impl_->look(purpose, done); }

void Acceptor::close() noexcept { impl_->close(); }

}  // namespace tutti::transport
