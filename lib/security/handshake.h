#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/security/secret.h"

namespace tutti {

/// The purpose of a connection. A proof made for one purpose is invalid for another.
enum class Purpose : std::uint8_t {
  link = 1,              ///< messages from one rank to another
  failure_detector = 2,  ///< heartbeats
  store = 3,             ///< a client of the store
  board = 4,             ///< memory that a group shares (only within a host)
  pool = 5,              ///< memory for boards of one group after the other (only within a host)
};

/// A set of purposes, as served by an acceptor.
class Purposes {
 public:
  constexpr Purposes() = default;
  constexpr Purposes(Purpose one) : bits_(bit(one)) {}  // NOLINT(google-explicit-constructor): one is a set, too
  constexpr explicit Purposes(std::uint32_t bits) : bits_(bits) {}

  constexpr void add(Purpose one) { bits_ |= bit(one); }
  constexpr void remove(Purpose one) { bits_ &= ~bit(one); }
  constexpr bool have(std::uint8_t number) const { return number < 32 && (bits_ >> number & 1) != 0; }
  constexpr std::uint32_t bits() const { return bits_; }

 private:
  static constexpr std::uint32_t bit(Purpose one) { return std::uint32_t{1} << static_cast<unsigned>(one); }

  std::uint32_t bits_ = 0;
};

/// Which of the connections of a link one is.
struct Stripe {
  static constexpr int most = 16;

  std::uint16_t attempt = 0;  ///< equal for all connections of the link, and another one if they are made anew
  std::uint8_t number = 0;    ///< from 0
  std::uint8_t count = 1;     ///< connections of the link

  constexpr bool is_possible() const { return count <= most && number < count; }
  friend bool operator==(const Stripe&, const Stripe&) = default;
};

/// The initiator of a connection, and its purpose. The ranks of a store's client and server are 0.
struct Hello {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::uint64_t channel = 0;
  Purpose purpose = Purpose::link;
  bool encrypted = false;  ///< an encrypted stream follows (lib/security/tls_proxy.h), as both sides must want it
  Stripe stripe = {};

  friend bool operator==(const Hello&, const Hello&) = default;
};

/// Two processes prove to each other that they know the same key, without showing it to anybody.
///
///   initiator                                              acceptor
///     | ---- hello: who, what for, fresh nonce -----------> |  60 bytes
///     | <--- fresh nonce, HMAC(key, "acceptor", all) ------ |  64 bytes
///     | ---- HMAC(key, "initiator", all) -----------------> |  32 bytes
///     | <--- accept --------------------------------------- |  1 byte; if the hello asks for encryption, encrypted
///
/// "All" is the hello and the acceptor's nonce, so that no message fits into another connection, another pair of ranks,
/// another purpose or the other direction. The accept byte says that the acceptor has kept the connection although
/// places may be scarce, so nothing that is sent after it can be lost in the handshake. docs/wire.md is the
/// specification.
///
/// It moves no bytes itself: its user sends outgoing() and fills incoming() while the state is `under_way`
/// (lib/security/handshake_io.h). In the state `proved` its user exchanges the connection by TlsProxies::encrypt(), and
/// goes on over the encrypted end. It allocates nothing and never throws; a failure on this side is a refusal, too.
class Handshake {
 public:
  enum class State : std::uint8_t { under_way, proved, encrypting, done, refused };

  static constexpr std::size_t hello_size = 60;
  static constexpr std::size_t answer_size = 64;
  static constexpr std::size_t proof_size = 32;
  static constexpr std::size_t accept_size = 1;

  /// For the side that opens the connection. `key` must outlive this object.
  static Handshake initiate(const Secret& key, const Hello& hello);
  /// For the side that accepts it. It admits only peers that want `rank` for one of `purposes`, and that encrypt if and
  /// only if this side does; `encrypted` nothing: the initiator decides, and nobody on the path can change that, since
  /// both proofs cover it.
  static Handshake accept(const Secret& key, Purposes purposes, std::int32_t rank,
                          std::optional<bool> encrypted = false);
  /// For an acceptor: from now on it admits peers for these purposes only.
  void admit(Purposes purposes);

  State state() const { return state_; }
  bool is_initiator() const { return initiator_; }
  /// From `proved` on: a key that only these two processes have, and only for this connection.
  Digest encryption_key() const noexcept;
  /// After `proved`: the connection has been exchanged.
  void encrypting();
  /// After `encrypting`: the encrypted end is ready.
  void encrypted();
  /// For an acceptor that has received the hello; it is proved only from `proved` or `done` on.
  const Hello& hello() const { return hello_; }

  /// The bytes to send now; may be empty.
  std::span<const std::byte> outgoing() const { return std::span(outgoing_).subspan(sent_, outgoing_size_ - sent_); }
  void sent(std::size_t bytes);
  /// Where to put the bytes that are expected now. No more than these may be read. May be empty.
  std::span<std::byte> incoming() { return std::span(incoming_).subspan(received_, incoming_size_ - received_); }
  void received(std::size_t bytes);

 private:
  Handshake(const Secret& key, bool initiator) : key_(key.bytes()), initiator_(initiator) {}

  void say(std::span<const std::byte> bytes);
  void await(std::size_t bytes);
  void hear_hello();
  void hear_answer();
  void hear_proof();
  void refuse();

  std::span<const std::byte> key_;
  Hello hello_;
  Purposes purposes_;
  std::int32_t rank_ = 0;
  std::optional<bool> encrypted_;  ///< of an acceptor: what it demands
  bool initiator_;
  bool trusts_peer_ = false;
  State state_ = State::under_way;
  std::size_t sent_ = 0;
  std::size_t outgoing_size_ = 0;
  std::size_t received_ = 0;
  std::size_t incoming_size_ = 0;
  std::array<std::byte, hello_size + digest_size> transcript_{};  ///< hello, acceptor's nonce
  std::array<std::byte, answer_size> outgoing_{};
  std::array<std::byte, answer_size> incoming_{};
};

}  // namespace tutti
