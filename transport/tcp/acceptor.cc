// The acceptor: one thread, one Asio loop, one handshake per stranger.
//
//   listening --accept--> stranger --hello--> answered --proof--> (encrypted -->) welcome, with the socket
//                            |                    |
//                            +---- time is up, wrong, gone, place wanted ----> shown out
//
// Strangers stand in a list in the order in which they came, so one timer for the first of them serves all.

#include "transport/tcp/acceptor.h"

#include <fmt/format.h>
#include <poll.h>

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
#include "lib/base/keep_alive.h"
#include "lib/base/system_error_text.h"
#include "transport/tcp/handshake_io.h"

namespace tutti::transport::tcp {
namespace {

using Clock = std::chrono::steady_clock;
using asio::posix::stream_descriptor;

constexpr std::chrono::milliseconds pause_without_descriptors{100};

/// Waits for a descriptor that somebody else owns, and at the end forgets it without closing it.
struct Waiter : stream_descriptor {
  using stream_descriptor::stream_descriptor;
  ~Waiter() { part(); }
  void part() {
    if (is_open()) release();
  }
};

/// A connection that has not proved itself. Handlers on their way share it, because a wait that has completed still
/// runs its handler after the stranger has gone.
struct Stranger {
  Stranger(asio::io_context& context, Socket accepted, const Credentials& credentials, Purposes purposes)
      : socket(std::move(accepted)),
        waiter(context, socket.get()),
        handshake(Handshake::accept(credentials.key, purposes, credentials.rank, credentials.tls_proxies != nullptr)),
        tls_proxies(credentials.tls_proxies.get()) {}

  bool gone() const { return !waiter.is_open(); }
  bool silent() { return handshake.incoming().size() == Handshake::hello_size; }

  /// As advance(), and then until the tunnel is there.
  int hear() {
    if (int error = encrypted ? 0 : advance(handshake, socket); error != 0) return error;
    if (tls_proxies == nullptr || handshake.state() != Handshake::State::done) return 0;
    if (!std::exchange(encrypted, true)) {
      waiter.part();
      socket = tls_proxies->encrypt(std::move(socket), handshake);
      if (!socket) return errno;
      waiter.assign(socket.get());
      waiting = false;  // what was awaited of the other socket does not come
    }
    return TlsProxies::is_ready(socket.get());
  }

  Socket socket;
  Waiter waiter;
  Handshake handshake;
  TlsProxies* const tls_proxies;
  bool encrypted = false;
  const Clock::time_point since = Clock::now();
  bool waiting = false;  ///< a handler is on its way
};

using StrangerPointer = std::shared_ptr<Stranger>;

}  // namespace

class Acceptor::Impl {
 public:
  Impl(const Address& address, Credentials credentials, DoorOptions options, const Log& log)
      : credentials_(std::move(credentials)),
        options_(std::move(options)),
        log_(log),
        listener_(listen_on(address, options_.silence)),
        address_(local_address(listener_)),
        knock_(context_, listener_.get()) {
    accept_later();
    thread_ = start_quiet_thread([this] { run(); });
  }

  ~Impl() { close(); }

  void close() noexcept {
    if (!thread_.joinable()) return;
    context_.stop();
    thread_.join();
    for (const StrangerPointer& stranger : strangers_) {
      stranger->waiter.part();  // handlers may hold it a little longer
      stranger->socket.reset();
    }
    strangers_.clear();
    knock_.part();
    listener_.reset();
    const std::lock_guard lock{mutex_};
    closed_ = true;
    for (const Look& look : std::exchange(looks_, {})) look.done();
  }

  const std::string& address() const { return address_; }
  std::size_t strangers() const { return count_.load(); }

  void serve(Purpose purpose, Welcome welcome) {
    const std::lock_guard lock{mutex_};
    welcomes_.insert_or_assign(purpose, std::move(welcome));
    purposes_.add(purpose);
  }

  void dismiss(Purpose purpose) noexcept {
    const std::lock_guard lock{mutex_};
    welcomes_.erase(purpose);
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

  /// Those that were asked for up to that one.
  void serve_looks(std::uint64_t asked) {
    accept_all();
    for (auto next = strangers_.begin(); next != strangers_.end();) hear(*next++);
    const std::lock_guard lock{mutex_};
    for (const Look& look : looks_)
      if (look.number <= asked) look.done();
    std::erase_if(looks_, [asked](const Look& look) { return look.number <= asked; });
  }

  Purposes purposes() {
    const std::lock_guard lock{mutex_};
    return purposes_;
  }

  void run() {
    for (bool again = false; !context_.stopped();) {
      try {
        if (std::exchange(again, false)) accept_all();
        context_.run_one();
      } catch (const std::exception&) {
        // Out of memory: what was being started is given up, and the acceptor must not stay shut for it.
        std::this_thread::sleep_for(pause_without_descriptors);
        again = true;
      }
    }
  }

  // ---- Accepting -------------------------------------------------------------------------------------------------

  void accept_later() {
    if (accepting_) return;
    knock_.async_wait(stream_descriptor::wait_read, [this](const asio::error_code& failed) {
      accepting_ = false;
      if (!failed) accept_all();
    });
    accepting_ = true;
  }

  void accept_all() {
    int error = 0;
    for (;;) {
      if (strangers_.size() >= options_.strangers && somebody_waits() && !make_room()) {
        full_ = true;
        return wake_at(strangers_.front()->since + options_.least_patience);
      }
      Socket socket = accept_from(listener_, options_.congestion);
      if (socket) keep_alive(socket.get(), options_.lost_after);
      error = socket ? 0 : errno;
      if (is_our_own(error) && !somebody_waits()) error = EAGAIN;  // the kernel looks for a descriptor first
      if (is_our_own(error) && !strangers_.empty() && make_room()) continue;
      if (error != 0) break;
      strangers_.push_back(std::make_shared<Stranger>(context_, std::move(socket), credentials_, purposes()));
      ++count_;
      hear(strangers_.back());  // a peer has usually spoken by now
    }
    if (error != EAGAIN && error != EWOULDBLOCK) {
      if (!std::exchange(starved_, true))
        log_.warn(
            fmt::format("rank {} cannot accept connections of other ranks: {}", credentials_.rank, refusal(error)));
      return wake_at(Clock::now() + pause_without_descriptors);
    }
    accept_later();
    if (!strangers_.empty()) wake_at(strangers_.front()->since + options_.patience);
  }

  bool somebody_waits() const {
    pollfd query{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&query, 1, 0) > 0;
  }

  /// Those who say nothing must go before those who have begun to.
  bool make_room() {
    const auto silent =
        std::find_if(strangers_.begin(), strangers_.end(), [](const auto& stranger) { return stranger->silent(); });
    const StrangerPointer first = silent == strangers_.end() ? strangers_.front() : *silent;
    if (silent == strangers_.end() && Clock::now() - first->since < options_.least_patience) return false;
    show_out(first);
    return true;
  }

  /// Then those whose time is up are shown out, and others accepted.
  void wake_at(Clock::time_point time) {
    if (timer_set_ && timer_.expiry() <= time) return;
    timer_.expires_at(time);
    timer_.async_wait([this](const asio::error_code& failed) {
      if (failed) return;  // set anew
      timer_set_ = false;
      const auto now = Clock::now();
      while (!strangers_.empty() && now - strangers_.front()->since >= options_.patience) show_out(strangers_.front());
      accept_all();
    });
    timer_set_ = true;
  }

  // ---- Hearing ---------------------------------------------------------------------------------------------------

  // By value, since the list that a caller's reference may point into forgets him.
  void hear(const StrangerPointer stranger) {  // NOLINT(performance-unnecessary-value-param)
    if (stranger->gone()) return;
    const int error = stranger->hear();
    if (error == EAGAIN) return hear_later(stranger);
    if (error != 0 || stranger->handshake.state() != Handshake::State::done) return show_out(stranger);
    leave(stranger);
    const Hello& hello = stranger->handshake.hello();
    try {
      const std::lock_guard lock{mutex_};
      if (const auto found = welcomes_.find(hello.purpose); found != welcomes_.end())
        found->second(hello, std::move(stranger->socket));
    } catch (const std::exception&) {
    }
    stranger->socket.reset();  // if nobody has taken it
  }

  void hear_later(const StrangerPointer& stranger) {
    if (stranger->waiting) return;
    const bool writing = !stranger->handshake.outgoing().empty();
    stranger->waiter.async_wait(writing ? stream_descriptor::wait_write : stream_descriptor::wait_read,
                                [this, stranger](const asio::error_code& failed) {
                                  stranger->waiting = false;
                                  if (!failed) hear(stranger);
                                });
    stranger->waiting = true;
  }

  void leave(const StrangerPointer& stranger) {
    stranger->waiter.part();
    std::erase(strangers_, stranger);
    --count_;
    if (std::exchange(full_, false)) asio::post(context_, [this] { accept_all(); });
  }

  void show_out(const StrangerPointer stranger) {  // NOLINT(performance-unnecessary-value-param)
    leave(stranger);
    stranger->socket.reset();
  }

  const Credentials credentials_;
  const DoorOptions options_;
  const Log log_;
  std::atomic<std::size_t> count_{0};

  std::mutex mutex_;  ///< of what follows; held while a welcome or the end of a look runs
  std::map<Purpose, Welcome> welcomes_;
  Purposes purposes_;
  std::vector<Look> looks_;
  std::uint64_t asked_ = 0;
  bool closed_ = false;

  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  Socket listener_;
  const std::string address_;
  Waiter knock_;
  asio::steady_timer timer_{context_};
  bool accepting_ = false;
  bool timer_set_ = false;
  bool starved_ = false;                  ///< and said so
  bool full_ = false;                     ///< somebody waits for a place
  std::list<StrangerPointer> strangers_;  ///< oldest first
  std::thread thread_;
};

Acceptor::Acceptor(const Address& address, Credentials credentials, DoorOptions options, const Log& log)
    : impl_(std::make_unique<Impl>(address, std::move(credentials), std::move(options), log)) {}

Acceptor::~Acceptor() = default;

const std::string& Acceptor::address() const { return impl_->address(); }

std::size_t Acceptor::strangers() const { return impl_->strangers(); }

void Acceptor::serve(Purpose purpose, Welcome welcome) { impl_->serve(purpose, std::move(welcome)); }

void Acceptor::dismiss(Purpose purpose) noexcept { impl_->dismiss(purpose); }

void Acceptor::look(Purpose purpose, const std::function<void()>& done) noexcept { impl_->look(purpose, done); }

void Acceptor::close() noexcept { impl_->close(); }

}  // namespace tutti::transport::tcp
