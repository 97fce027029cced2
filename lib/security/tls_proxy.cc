// One thread and one Asio loop for all tls_proxies (tls_proxy_pump.cc), how they end, and what fork() waits for.

#include "lib/security/tls_proxy.h"

#include <openssl/crypto.h>
#include <pthread.h>
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

/// Held where OpenSSL is used outside of the threads of TlsProxies, and while a process is forked.
constinit std::mutex openssl_or_fork;

}  // namespace

class TlsProxies::Impl {
 public:
  Impl() : tls_(make_context()) {
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

  /// After end(), and not while a process is forked.
  ~Impl() {
    while (!tls_proxies_.empty()) (*tls_proxies_.begin())->close();
  }

  /// Drains, and ends the thread, for which fork() waits until then.
  void end() noexcept {
    stop();
    const std::lock_guard lock{roll().mutex};
    roll().alive.erase(this);
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
    std::shared_ptr<EncryptedStream> stream;
    {
      const std::lock_guard no_fork{openssl_or_fork};
      stream =
          make_encrypted_stream(context_, *tls_, std::move(connection), {ends_, users, std::move(ours)}, side, key);
    }
    ++count_;
    asio::post(context_, [this, stream] { add(stream); });
    return users;
  }

 private:
  void run() {
    for (;;) {
      try {
        context_.run();
        ::OPENSSL_thread_stop();  // what OpenSSL would do at the end of the thread
        thread_is_over_ = true;
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

  // ---- fork() and the end of the program -----------------------------------------------------------------------

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

  struct Pause {
    std::promise<void> begun;
    std::promise<void> over;
  };

  /// fork() waits until no thread of this process is inside OpenSSL. Otherwise the child would find its locks taken
  /// without end, and could not encrypt connections of its own: it may be a rank, and the parent have the store of its
  /// id.
  static std::shared_ptr<asio::ssl::context> make_context() {
    static std::once_flag once;
    std::call_once(once, [] { ::pthread_atfork(before_fork, after_fork, [] { openssl_or_fork.unlock(); }); });
    const std::lock_guard no_fork{openssl_or_fork};
    return make_tls_context();
  }

  static void before_fork() noexcept {
    openssl_or_fork.lock();
    roll().mutex.lock();
    for (Impl* const one : roll().alive) one->pause();
  }

  /// In the parent. The child begins with a new roll.
  static void after_fork() noexcept {
    for (Impl* const one : roll().alive)
      if (const auto pause = std::exchange(one->pause_, nullptr)) pause->over.set_value();
    roll().mutex.unlock();
    openssl_or_fork.unlock();
  }

  /// Keeps the thread in a place of ours.
  void pause() noexcept try {
    pause_ = std::make_shared<Pause>();
    auto begun = pause_->begun.get_future();
    asio::post(context_, [pause = pause_] {
      pause->begun.set_value();
      pause->over.get_future().wait();
    });
    for (const auto limit = Clock::now() + drain_time; !thread_is_over_.load() && Clock::now() < limit;)
      if (begun.wait_for(std::chrono::milliseconds{1}) == std::future_status::ready) return;
  } catch (const std::exception&) {
    // Out of memory: the fork takes its chance.
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
  std::atomic<bool> thread_is_over_{false};
  std::atomic<std::size_t> count_{0};
  std::promise<void> over_;
  std::shared_ptr<Pause> pause_;  // while a process is forked
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
  if (!impl_->is_here()) {
    keep_for_ever(std::move(impl_));
    return;
  }
  impl_->end();
  const std::lock_guard no_fork{openssl_or_fork};
  impl_.reset();
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
