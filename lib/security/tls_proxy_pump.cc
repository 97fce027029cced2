// An encrypted stream is two pumps, one per direction, each with one operation in progress:
//
//   collect: read from the user --> write to TLS --> again      end of the user's stream: send close_notify
//   deliver: read from TLS --> write to the user --> again      end of the peer's stream: tell the user, close_notify
//
// A pump that cannot write does not read, so a slow reader holds up the writer, as on TCP itself.
//
// End: the side that ends first sends close_notify and continues to read, discarding the data, until the other side has
// ended or a second has passed. Closing at once could make TCP discard data that it has not sent yet.

#include "lib/security/tls_proxy_pump.h"

#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <asio/ssl/context.hpp>
#include <asio/ssl/stream.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "lib/base/net/socket.h"
#include "tutti/error.h"

namespace tutti {
namespace {

using Socket = asio::generic::stream_protocol::socket;
using asio::ssl::stream_base;

constexpr std::chrono::seconds close_time{1};
constexpr std::size_t record_size = 16'384;  // of TLS: a record is never larger
/// The key changes after that many: far below the 2^24.5 records that AES-GCM allows (RFC 8446, 5.5), and hardly a
/// cost.
constexpr std::size_t records_of_a_key = 65'536;

// ---- The key, for OpenSSL --------------------------------------------------------------------------------------

constexpr std::string_view identity = "tutti";
constexpr const char* cipher_name = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> cipher_id{0x13, 0x01};  // of that cipher suite

int key_index() {
  static const int index = ::SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

/// A session that never existed, apart from its key: this is how TLS 1.3 represents an external pre-shared key.
SSL_SESSION* session_of(SSL* ssl) {
  const auto* key = static_cast<const Digest*>(::SSL_get_ex_data(ssl, key_index()));
  const SSL_CIPHER* cipher = ::SSL_CIPHER_find(ssl, cipher_id.data());
  SSL_SESSION* session = ::SSL_SESSION_new();
  if (key != nullptr && cipher != nullptr && session != nullptr &&
      ::SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key->data()), key->size()) == 1 &&
      ::SSL_SESSION_set_cipher(session, cipher) == 1 &&
      ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  ::SSL_SESSION_free(session);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** id, std::size_t* size, SSL_SESSION** session) {
  *session = session_of(ssl);
  *id = reinterpret_cast<const unsigned char*>(identity.data());
  *size = identity.size();
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* id, std::size_t size, SSL_SESSION** session) {
  const bool ours = std::string_view{reinterpret_cast<const char*>(id), size} == identity;
  *session = ours ? session_of(ssl) : nullptr;
  return !ours || *session != nullptr ? 1 : 0;
}

Socket adopt(asio::io_context& context, Descriptor descriptor) {
  const int family = net::local_address(descriptor).family();
  Socket socket{context, asio::generic::stream_protocol{family, 0}, descriptor.get()};
  descriptor.release();
  return socket;
}

// ---- The stream --------------------------------------------------------------------------------------------------

/// Handlers in flight share it.
class TlsStream final : public EncryptedStream, public std::enable_shared_from_this<TlsStream> {
  /// Continues with `body` unless the stream has been closed. Exceptions concern this connection only.
  template <class Body>
  auto then(Body body) {
    return [self = shared_from_this(), body](const asio::error_code& failed, std::size_t bytes = 0) {
      if (self->closed_) return;
      self->error_ = failed;
      try {
        body(static_cast<bool>(failed), bytes);
      } catch (const std::exception&) {
        self->close();
      }
    };
  }

 public:
  TlsStream(asio::io_context& context, asio::ssl::context& tls, Descriptor connection, UsersPair pair,
            TlsProxies::Side side, const Digest& key)
      : stream_(adopt(context, std::move(connection)), tls),
        user_(adopt(context, std::move(pair.ours))),
        known_(pair.ends, pair.users, net::SocketView{stream_.next_layer().native_handle()}),
        timer_(context),
        side_(side),
        key_(key) {
    // Certificates are never accepted. (A server that asked for one would refuse pre-shared keys, too.)
    if (side == TlsProxies::Side::client) stream_.set_verify_mode(asio::ssl::verify_peer);
    if (::SSL_set_ex_data(stream_.native_handle(), key_index(), &key_) != 1) throw std::bad_alloc{};
  }
  ~TlsStream() override { forget_key(); }

  void start(std::function<void()> closed) override {
    on_close_ = std::move(closed);
    collect();
    stream_.async_handshake(side_ == TlsProxies::Side::client ? stream_base::client : stream_base::server,
                            then([this](bool failed, std::size_t) { shook_hands(failed); }));
  }

  void end() override {
    asio::error_code ignored;
    user_.shutdown(Socket::shutdown_receive, ignored);
  }

  bool is_idle() override {
    asio::error_code failed;
    return closed_ || (collected_ == 0 && user_.available(failed) == 0);
  }

  void close() override {
    if (closed_) return;
    closed_ = true;
    asio::error_code ignored;
    timer_.cancel();
    user_.close(ignored);
    disconnect();
    if (on_close_) std::exchange(on_close_, nullptr)();  // may drop the last other reference
  }

 private:
  void forget_key() { OPENSSL_cleanse(key_.data(), key_.size()); }

  void shook_hands(bool failed) {
    forget_key();
    if (failed || ::SSL_session_reused(stream_.native_handle()) != 1) return close();
    ready_ = true;
    ::send(user_.native_handle(), &TlsProxies::ready_byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    deliver();
    if (collected_ > 0) forward();
  }

  void collect() {
    user_.async_read_some(asio::buffer(outgoing_), then([this](bool failed, std::size_t bytes) {
                            if (failed) return user_has_left();
                            collected_ = bytes;
                            if (ready_) forward();
                          }));
  }

  void forward() {
    if (peer_left_) return forwarded();  // as on TCP, where the first write after the end succeeds, too
    records_ += collected_ / record_size + 1;
    if (records_ >= records_of_a_key && ::SSL_key_update(stream_.native_handle(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
      records_ = 0;
    asio::async_write(stream_, asio::buffer(outgoing_, collected_), then([this](bool failed, std::size_t) {
                        if (failed) note_error();  // which the kernel tells only once, perhaps to this operation
                        forwarded();
                      }));
  }

  void forwarded() {
    collected_ = 0;
    collect();
  }

  void deliver() {
    stream_.async_read_some(asio::buffer(incoming_), then([this](bool failed, std::size_t bytes) {
                              if (failed) return peer_has_left();
                              if (user_left_) return deliver();
                              asio::async_write(user_, asio::buffer(incoming_, bytes),
                                                then([this](bool, std::size_t) { deliver(); }));
                            }));
  }

  // ---- Ends ------------------------------------------------------------------------------------------------------

  void user_has_left() {
    user_left_ = true;
    if (!ready_) return close();
    asio::error_code ignored;
    user_.cancel(ignored);  // stops a write to the user; deliver() continues without it
    say_goodbye();
    close_what_is_over();
  }

  void peer_has_left() {
    note_error();
    peer_left_ = true;
    asio::error_code ignored;
    user_.shutdown(Socket::shutdown_send, ignored);
    say_goodbye();
    close_what_is_over();
  }

  void note_error() {
    if (error_.category() == asio::error::get_system_category() && error_ != asio::error::operation_aborted)
      known_.note(error_.value());
  }

  void say_goodbye() {
    if (std::exchange(saying_goodbye_, true)) return;
    timer_.expires_after(close_time);
    timer_.async_wait(then([this](bool failed, std::size_t) {
      if (failed) return;
      if (user_left_) return close();
      hang_up();
    }));
    stream_.async_shutdown(then([this](bool, std::size_t) {
      said_goodbye_ = true;
      asio::error_code ignored;
      stream_.next_layer().shutdown(Socket::shutdown_send, ignored);
      close_what_is_over();
    }));
  }

  void close_what_is_over() {
    if (!peer_left_ || !said_goodbye_) return;
    if (user_left_) return ignore_rest();
    hang_up();
  }

  /// TLS stops reading once close_notify has been sent and data still arrive; TCP continues.
  void ignore_rest() {
    stream_.next_layer().async_read_some(asio::buffer(incoming_),
                                         then([this](bool failed, std::size_t) { failed ? close() : ignore_rest(); }));
  }

  void hang_up() {
    timer_.cancel();
    disconnect();
  }

  void disconnect() {
    known_.disconnect();
    asio::error_code ignored;
    stream_.next_layer().close(ignored);
  }

  asio::ssl::stream<Socket> stream_;
  Socket user_;
  TlsEnds::Entry known_;
  asio::steady_timer timer_;
  const TlsProxies::Side side_;
  Digest key_;
  std::function<void()> on_close_;
  bool ready_ = false;
  bool user_left_ = false;
  bool peer_left_ = false;
  bool saying_goodbye_ = false;
  bool said_goodbye_ = false;
  bool closed_ = false;
  asio::error_code error_;     ///< of the operation that has ended last
  std::size_t collected_ = 0;  ///< bytes of the user's on their way
  std::size_t records_ = 0;    ///< sent under this key, at least
  std::array<std::byte, 4 * record_size> outgoing_;
  std::array<std::byte, record_size> incoming_;
};

}  // namespace

// Without certificates a server has nothing to offer to a client without the key.
std::shared_ptr<asio::ssl::context> make_tls_context() {
  // From now on exit() does not clean up libcrypto, unless the program has used it before.
  if (::OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) != 1)
    throw Error{ErrorCode::system, "cannot encrypt: OpenSSL has been taken down by exit()"};
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tlsv13);
  SSL_CTX* const native = context->native_handle();
  ::SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_psk_use_session_callback(native, offer_key);
  ::SSL_CTX_set_psk_find_session_callback(native, find_key);
  if (::SSL_CTX_set_ciphersuites(native, cipher_name) != 1 || ::SSL_CTX_set_num_tickets(native, 0) != 1)
    throw Error{ErrorCode::system, "cannot encrypt: OpenSSL has no TLS_AES_128_GCM_SHA256"};
  return context;
}

std::shared_ptr<EncryptedStream> make_encrypted_stream(asio::io_context& context, asio::ssl::context& tls,
                                                       Descriptor connection, UsersPair pair, TlsProxies::Side side,
                                                       const Digest& key) {
  return std::make_shared<TlsStream>(context, tls, std::move(connection), std::move(pair), side, key);
}

}  // namespace tutti
