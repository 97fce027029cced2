// One thread and one Asio loop for all tls_proxies (tls_proxy_pump.cc), and how they end.

#include "lib/security/tls_proxy.h"

#include <openssl/crypto.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <future>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "lib/base/background_thread.h"
#include "lib/base/fork_mark.h"
#include "lib/base/system_error_text.h"
#include "lib/security/tls_ends.h"
#include "lib/security/tls_proxy_pump.h"
#include "tutti/error.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds drain_time{2};

}  // namespace

class TlsProxies::Impl {
 public:
  Impl() : tls_(make_tls_context()) {
    register_exit();
    const std::lock_guard lock{roll().mutex};
    const auto place = roll().alive.insert(this).first;
    try {
      thread_ = start_thread_without_signals([this] { run(); });
    } catch (...) {
      roll().alive.erase(place);
      throw;
    }
  }

  ~Impl() {
    {
      const std::lock_guard lock{roll().mutex};
      roll().alive.erase(this);
    }
    stop();
    while (!tls_proxies_.empty()) (*tls_proxies_.begin())->close();
  }

  bool is_here() const noexcept { return mark_.is_here(); }
  std::size_t count() const noexcept { return count_.load(); }
  const TlsEnds& ends() const noexcept { return ends_; }

  Descriptor encrypt(Descriptor connection, Side side, const Digest& key) {
    if (!is_here() || stopped_.load()) {
      errno = ENOTCONN;
      return {};
    }
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) return {};
    Descriptor users{ends[0]};
    Descriptor ours{ends[1]};
    const auto stream =
        make_encrypted_stream(context_, *tls_, std::move(connection), {ends_, users, std::move(ours)}, side, key);
    ++count_;
    asio::post(context_, [this, stream] { add(stream); });
    return users;
  }

 private:
  void run() {
    for (;;) {
      try {
        context_.run();
        return over_.set_value();
      } catch (const std::exception&) {
        // Out of memory between two proxies; nothing is lost.
      }
    }
  }

  void add(const std::shared_ptr<EncryptedStream>& stream) {
    try {
      tls_proxies_.insert(stream);
      stream->start([this, key = std::weak_ptr{stream}] {
        tls_proxies_.erase(key.lock());
        --count_;
      });
      if (stopped_.load()) stream->end();
    } catch (const std::exception&) {
      stream->close();
    }
  }

  /// Drains, and ends the thread.
  void stop() noexcept {
    if (stopped_.exchange(true)) return;
    try {
      asio::post(context_, [this] {
        for (const auto& stream : tls_proxies_) stream->end();
        work_.reset();  // the thread ends when nothing is in progress any more
      });
      if (over_.get_future().wait_for(drain_time) != std::future_status::ready) context_.stop();
    } catch (const std::exception&) {
      context_.stop();
    }
    thread_.join();
  }

  /// Waits until all data that users have written have been sent. It asks twice, since data that had just been read at
  /// the first answer are still on the way to their stream.
  void flush(Clock::time_point deadline) {
    for (int idle = 0; idle < 2 && !stopped_.load() && Clock::now() < deadline;) {
      const auto answer = std::make_shared<std::promise<bool>>();
      auto heard = answer->get_future();
      asio::post(context_, [this, answer] {
        answer->set_value(std::ranges::all_of(tls_proxies_, [](const auto& stream) { return stream->is_idle(); }));
      });
      if (heard.wait_until(deadline) != std::future_status::ready) return;
      idle = heard.get() ? idle + 1 : 0;
      if (idle == 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }

  // ---- The end of the program ----------------------------------------------------------------------------------

  /// The living objects of this process.
  struct Roll {
    const ForkMark mark;
    std::mutex mutex;
    std::set<Impl*> alive;
  };
  static inline std::atomic<Roll*> roll_{nullptr};  // never destroyed, since other objects may end later

  /// A child of fork() begins with a new one, since a thread of the parent may have held the lock.
  static Roll& roll() {
    Roll* found = roll_.load();
    while (found == nullptr || !found->mark.is_here()) {
      Roll* const fresh = new Roll;
      if (roll_.compare_exchange_strong(found, fresh)) return *fresh;
      delete fresh;
    }
    return *found;
  }

  /// At exit(), the living objects send their data. Objects with static storage may continue after that until they end,
  /// unless a program that uses OpenSSL itself has shut it down.
  static void register_exit() {
    static const bool done = [] {
      std::atexit([] { at_end(false); });
      ::OPENSSL_atexit([] { at_end(true); });
      return true;
    }();
    static_cast<void>(done);
  }

  static void at_end(bool for_good) noexcept {
    const Roll* const mine = roll_.load();
    if (mine == nullptr || !mine->mark.is_here()) return;
    const std::lock_guard lock{roll().mutex};
    const auto deadline = Clock::now() + drain_time;
    try {
      for (Impl* const one : roll().alive) for_good ? one->stop() : one->flush(deadline);
    } catch (const std::exception&) {
      // Out of memory at the very end: the remaining data are lost.
    }
  }

  const ForkMark mark_;
  const std::shared_ptr<asio::ssl::context> tls_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::size_t> count_{0};
  std::promise<void> over_;
  TlsEnds ends_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  std::set<std::shared_ptr<EncryptedStream>> tls_proxies_;
  std::thread thread_;
};

TlsProxies::TlsProxies() try : impl_(std::make_shared<Impl>()) {
} catch (const std::system_error& error) {
  throw Error{ErrorCode::system, "cannot encrypt: " + refusal(error.code().value())};
}

TlsProxies::~TlsProxies() {
  if (!impl_->is_here()) keep_for_ever(std::move(impl_));
}

Descriptor TlsProxies::encrypt(Descriptor connection, Side side, const Digest& key) noexcept try {
  return impl_->encrypt(std::move(connection), side, key);
} catch (const std::system_error& error) {
  errno = error.code().value();
  return {};
} catch (const std::exception&) {
  errno = ENOMEM;
  return {};
}

Descriptor TlsProxies::encrypt(Descriptor connection, Handshake& handshake) noexcept {
  Digest key = handshake.encryption_key();
  Descriptor end = encrypt(std::move(connection), handshake.is_initiator() ? Side::client : Side::server, key);
  OPENSSL_cleanse(key.data(), key.size());
  handshake.encrypting();
  return end;
}

int TlsProxies::is_ready(int end) noexcept {
  std::byte byte{};
  ssize_t got = 0;
  do {
    got = ::recv(end, &byte, 1, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got == 1 && byte == ready_byte) return 0;
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? EAGAIN : ECONNRESET;
}

Descriptor TlsProxies::connection_behind(const Descriptor& end) const noexcept {
  return impl_->ends().connection_behind(end);
}

int TlsProxies::error_behind(const Descriptor& end) const noexcept { return impl_->ends().error_behind(end); }

std::size_t TlsProxies::count() const noexcept { return impl_->count(); }

}  // namespace tutti
