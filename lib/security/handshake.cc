#include "lib/security/handshake.h"

#include <algorithm>
#include <string_view>

#include "lib/base/little_endian.h"

namespace tutti {
namespace {

constexpr std::uint32_t magic = 0x49545554;  // "TUTI"
constexpr std::uint16_t version = 4;

Digest proof_of(std::string_view who, std::span<const std::byte> key, std::span<const std::byte> transcript) noexcept {
  return hmac_sha256(key, {std::as_bytes(std::span{who}), transcript});
}

constexpr std::array<std::byte, Handshake::accept_size> accept_byte{std::byte{'W'}};
constexpr std::string_view acceptor_label = "tutti 4 acceptor";
constexpr std::string_view initiator_label = "tutti 4 initiator";
constexpr std::string_view encryption_label = "tutti 4 tunnel";

}  // namespace

Handshake Handshake::initiate(const Secret& key, const Hello& hello) {
  Handshake made{key, true};
  made.hello_ = hello;
  std::byte* at = made.transcript_.data();
  at = put(at, magic);
  at = put(at, version);
  at = put(at, static_cast<std::uint8_t>(hello.purpose));
  at = put(at, std::uint8_t{hello.encrypted});
  at = put(at, static_cast<std::uint32_t>(hello.from));
  at = put(at, static_cast<std::uint32_t>(hello.to));
  at = put(at, hello.channel);
  at = put(at, hello.stripe.attempt);
  at = put(at, hello.stripe.number);
  at = put(at, hello.stripe.count);
  if (!fill_with_random({at, digest_size})) {
    made.refuse();
    return made;
  }
  made.say(std::span(made.transcript_).first(hello_size));
  made.await(answer_size);
  return made;
}

Handshake Handshake::accept(const Secret& key, Purposes purposes, std::int32_t rank, std::optional<bool> encrypted) {
  Handshake made{key, false};
  made.purposes_ = purposes;
  made.encrypted_ = encrypted;
  made.rank_ = rank;
  made.await(hello_size);
  return made;
}

void Handshake::admit(Purposes purposes) {
  purposes_ = purposes;
  const bool has_hello = incoming_size_ != hello_size;
  if (has_hello && !purposes_.have(static_cast<std::uint8_t>(hello_.purpose))) refuse();
}

Digest Handshake::encryption_key() const noexcept { return proof_of(encryption_label, key_, transcript_); }

void Handshake::say(std::span<const std::byte> bytes) {
  std::copy(bytes.begin(), bytes.end(), outgoing_.begin());
  sent_ = 0;
  outgoing_size_ = bytes.size();
}

void Handshake::await(std::size_t bytes) {
  received_ = 0;
  incoming_size_ = bytes;
}

void Handshake::refuse() {
  state_ = State::refused;
  sent_ = outgoing_size_ = received_ = incoming_size_ = 0;
}

void Handshake::sent(std::size_t bytes) {
  sent_ += bytes;
  if (!trusts_peer_ || sent_ < outgoing_size_ || state_ != State::under_way) return;
  if (!initiator_) {
    state_ = State::done;
  } else if (incoming_size_ == 0) {  // the accept byte comes encrypted
    state_ = State::proved;
  }
}

void Handshake::encrypting() {
  if (state_ == State::proved) state_ = State::encrypting;
}

void Handshake::encrypted() {
  if (state_ != State::encrypting) return;
  state_ = State::under_way;
  if (initiator_) {
    await(accept_size);
  } else {
    say(accept_byte);
  }
}

void Handshake::received(std::size_t bytes) {
  received_ += bytes;
  if (received_ < incoming_size_ || state_ != State::under_way) return;
  switch (incoming_size_) {
    case hello_size:
      return hear_hello();
    case answer_size:
      return hear_answer();
    case proof_size:
      return hear_proof();
    default:
      if (incoming_[0] != accept_byte[0]) return refuse();
      state_ = State::done;
  }
}

/// Checks that the hello is for this rank before its ranks are used. The sender's rank is only proved later.
void Handshake::hear_hello() {
  const std::byte* at = incoming_.data();
  const bool known = get<std::uint32_t>(at) == magic && get<std::uint16_t>(at) == version;
  const auto purpose = get<std::uint8_t>(at);
  hello_.encrypted = get<std::uint8_t>(at) != 0;
  if (!known || !purposes_.have(purpose) || encrypted_.value_or(hello_.encrypted) != hello_.encrypted) return refuse();
  hello_.purpose = static_cast<Purpose>(purpose);
  hello_.from = static_cast<std::int32_t>(get<std::uint32_t>(at));
  hello_.to = static_cast<std::int32_t>(get<std::uint32_t>(at));
  hello_.channel = get<std::uint64_t>(at);
  hello_.stripe.attempt = get<std::uint16_t>(at);
  hello_.stripe.number = get<std::uint8_t>(at);
  hello_.stripe.count = get<std::uint8_t>(at);
  if (hello_.to != rank_ || !hello_.stripe.is_possible()) return refuse();
  std::copy_n(incoming_.begin(), hello_size, transcript_.begin());
  if (!fill_with_random(std::span(transcript_).subspan(hello_size))) return refuse();
  const Digest proof = proof_of(acceptor_label, key_, transcript_);
  std::array<std::byte, answer_size> answer;
  std::copy_n(transcript_.begin() + hello_size, digest_size, answer.begin());
  std::copy(proof.begin(), proof.end(), answer.begin() + digest_size);
  say(answer);
  await(proof_size);
}

void Handshake::hear_answer() {
  std::copy_n(incoming_.begin(), digest_size, transcript_.begin() + hello_size);
  const Digest expected = proof_of(acceptor_label, key_, transcript_);
  if (!equal_in_constant_time(expected, std::span(incoming_).subspan(digest_size))) return refuse();
  trusts_peer_ = true;
  say(proof_of(initiator_label, key_, transcript_));
  await(hello_.encrypted ? 0 : accept_size);
}

void Handshake::hear_proof() {
  const Digest expected = proof_of(initiator_label, key_, transcript_);
  if (!equal_in_constant_time(expected, std::span(incoming_).first(proof_size))) return refuse();
  trusts_peer_ = true;
  await(0);
  if (hello_.encrypted) {
    state_ = State::proved;
  } else {
    say(accept_byte);
  }
}

}  // namespace tutti
