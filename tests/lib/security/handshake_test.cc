#include "lib/security/handshake.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/documented.h"

namespace tutti {
namespace {

using State = Handshake::State;

const Secret job_key = Secret::from_text("the secret of this job", "test");
const Secret other_job_key = Secret::from_text("the secret of that job", "test");
const Hello hello{.from = 3,
                  .to = 5,
                  .channel = 0xfedcba9876543210,
                  .purpose = Purpose::link,
                  .stripe = {.attempt = 7, .number = 1, .count = 2}};

Handshake acceptor(const Secret& with = job_key, Purpose purpose = Purpose::link, int rank = 5) {
  return Handshake::accept(with, purpose, rank);
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What `side` has to say.
std::string said_by(Handshake& side) {
  std::string bytes = text_of(side.outgoing());
  side.sent(bytes.size());
  return bytes;
}

/// Lets `side` hear bytes, as many as it wants; false if it wants no more before they end.
bool tell(Handshake& side, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto room = side.incoming();
    const std::size_t count = std::min(room.size(), bytes.size());
    if (count == 0) return false;
    std::copy_n(std::as_bytes(std::span{bytes}).begin(), count, room.begin());
    side.received(count);
    bytes.remove_prefix(count);
  }
  return true;
}

/// All that is said, in order: hello, answer, proof, accept byte.
struct Record {
  std::vector<std::string> messages;
  State initiator = State::under_way;
  State acceptor = State::under_way;
};

/// Lets the two talk; `change` may alter each message on its way.
template <class Change>
Record talk(Handshake first, Handshake second, Change change) {
  Record record;
  for (bool moved = true; std::exchange(moved, false);)
    for (auto [from, to] : {std::pair{&first, &second}, std::pair{&second, &first}}) {
      std::string message = said_by(*from);
      if (message.empty()) continue;
      moved = true;
      change(record.messages.size(), message);
      record.messages.push_back(message);
      tell(*to, message);
      for (Handshake* side : {&first, &second})
        if (side->state() == State::proved) {
          side->encrypting();
          side->encrypted();
        }
    }
  record.initiator = first.state();
  record.acceptor = second.state();
  return record;
}

Record talk(Handshake first, Handshake second) {
  return talk(first, second, [](std::size_t, std::string&) {});
}

}  // namespace

TEST_CASE("two that know the key trust each other, and the acceptor learns who came") {
  Handshake first = Handshake::initiate(job_key, hello);
  Handshake second = acceptor();
  tell(second, said_by(first));
  CHECK(second.hello() == hello);
  CHECK(second.state() == State::under_way);
  tell(first, said_by(second));
  CHECK(first.state() == State::under_way);  // until it is accepted
  tell(second, said_by(first));
  CHECK(second.state() == State::under_way);  // until it has said so
  tell(first, said_by(second));
  CHECK(first.state() == State::done);
  CHECK(second.state() == State::done);
}

TEST_CASE("each purpose is let in at its own acceptor only, and nonces are fresh on both sides") {
  for (const Purpose mine : {Purpose::link, Purpose::failure_detector, Purpose::store})
    for (const Purpose theirs : {Purpose::link, Purpose::failure_detector, Purpose::store}) {
      Hello wish = hello;
      wish.purpose = mine;
      const Record record = talk(Handshake::initiate(job_key, wish), acceptor(job_key, theirs));
      CHECK((record.acceptor == State::done) == (mine == theirs));
    }
  const Record one = talk(Handshake::initiate(job_key, hello), acceptor());
  const Record two = talk(Handshake::initiate(job_key, hello), acceptor());
  CHECK(one.messages[0].substr(28) != two.messages[0].substr(24));
  CHECK(one.messages[1].substr(0, 32) != two.messages[1].substr(0, 32));
}

TEST_CASE("a rank that wants encryption is let in only where that is done, and the other way round") {
  for (const bool mine : {false, true})
    for (const bool theirs : {false, true}) {
      Hello wish = hello;
      wish.encrypted = mine;
      const Record record =
          talk(Handshake::initiate(job_key, wish), Handshake::accept(job_key, Purpose::link, hello.to, theirs));
      CHECK((record.acceptor == State::done) == (mine == theirs));
      CHECK((record.initiator == State::done) == (mine == theirs));
    }
}

TEST_CASE("where the initiator decides about encryption, nobody on the way does") {
  for (const bool wanted : {false, true}) {
    Hello wish = hello;
    wish.encrypted = wanted;
    const auto accept = [] { return Handshake::accept(job_key, Purpose::link, hello.to, std::nullopt); };
    const Record record = talk(Handshake::initiate(job_key, wish), accept());
    CHECK(record.initiator == State::done);
    CHECK(record.acceptor == State::done);
    Handshake first = Handshake::initiate(job_key, wish);
    Handshake second = accept();
    std::string changed = said_by(first);
    changed[7] ^= 1;
    tell(second, changed);
    tell(first, said_by(second));
    CHECK(first.state() == State::refused);
  }
}

TEST_CASE("where the connection is encrypted, the accept byte comes after that, and says as much as without") {
  Hello wish = hello;
  wish.encrypted = true;
  Handshake first = Handshake::initiate(job_key, wish);
  Handshake second = Handshake::accept(job_key, Purpose::link, hello.to, true);
  tell(second, said_by(first));
  tell(first, said_by(second));
  CHECK(first.state() == State::under_way);  // until its proof is sent
  tell(second, said_by(first));
  CHECK(first.state() == State::proved);
  CHECK(second.state() == State::proved);
  second.encrypted();  // it has not begun
  CHECK(said_by(second).empty());
  CHECK(first.incoming().empty());
  CHECK(first.state() == State::proved);
  CHECK(second.state() == State::proved);
  for (Handshake* side : {&first, &second}) {
    side->encrypting();
    CHECK(side->state() == State::encrypting);
    side->encrypted();
  }
  CHECK(said_by(first).empty());
  CHECK(first.state() == State::under_way);  // until it is accepted
  CHECK(second.state() == State::under_way);
  tell(first, said_by(second));
  CHECK(first.state() == State::done);
  CHECK(second.state() == State::done);
}

TEST_CASE("the key of the encryption is the same on both sides, as docs/wire.md says, and another one each time") {
  std::optional<Digest> last;
  for (int i = 0; i < 2; ++i) {
    Handshake first = Handshake::initiate(job_key, hello);
    Handshake second = acceptor();
    const std::string transcript_begin = said_by(first);
    tell(second, transcript_begin);
    const std::string answer = said_by(second);
    tell(first, answer);
    const std::string transcript = transcript_begin + answer.substr(0, 32);
    const auto expected = hmac_sha256(job_key.bytes(), {std::as_bytes(std::span{std::string_view{"tutti 4 tunnel"}}),
                                                        std::as_bytes(std::span{transcript})});
    CHECK(first.encryption_key() == expected);
    CHECK(second.encryption_key() == expected);
    CHECK(first.encryption_key() != last);
    last = first.encryption_key();
  }
}

TEST_CASE("every message is as long as the specification says, and never more is read") {
  const Record record = talk(Handshake::initiate(job_key, hello), acceptor());
  REQUIRE(record.messages.size() == 4);
  CHECK(record.messages[0].size() == 60);
  CHECK(record.messages[1].size() == 64);
  CHECK(record.messages[2].size() == 32);
  CHECK(record.messages[3] == "W");
  Handshake second = acceptor();
  CHECK(second.incoming().size() == 60);
  CHECK_FALSE(tell(second, record.messages[0] + std::string(33, 'x')));  // 32 are a wrong proof
  CHECK(second.incoming().empty());
  CHECK(second.outgoing().empty());
}

TEST_CASE("the proofs are what docs/wire.md says, and so is its example") {
  const auto digest = [&](const std::string& label, const std::string& transcript) {
    return text_of(
        hmac_sha256(job_key.bytes(), {std::as_bytes(std::span{label}), std::as_bytes(std::span{transcript})}));
  };
  const auto documented = [](const char* name) { return text_of(testing::documented_bytes(name)); };
  const Record record = talk(Handshake::initiate(job_key, hello), acceptor());
  const std::string example_hello = documented("hello");
  CHECK(example_hello.size() == record.messages[0].size());
  CHECK(example_hello.substr(0, 28) == record.messages[0].substr(0, 28));
  const std::string transcript = record.messages[0] + record.messages[1].substr(0, 32);
  CHECK(record.messages[1].substr(32) == digest("tutti 4 acceptor", transcript));
  CHECK(record.messages[2] == digest("tutti 4 initiator", transcript));

  const std::string example = example_hello + documented("answer").substr(0, 32);
  CHECK(documented("answer").substr(32) == digest("tutti 4 acceptor", example));
  CHECK(documented("proof") == digest("tutti 4 initiator", example));
}

TEST_CASE("bytes may come one by one") {
  Handshake first = Handshake::initiate(job_key, hello);
  Handshake second = acceptor();
  for (int i = 0; i < 1000 && (first.state() == State::under_way || second.state() == State::under_way); ++i)
    for (auto [from, to] : {std::pair{&first, &second}, std::pair{&second, &first}})
      while (!from->outgoing().empty()) {
        const std::string one = text_of(from->outgoing().first(1));
        from->sent(1);
        tell(*to, one);
      }
  CHECK(first.state() == State::done);
  CHECK(second.state() == State::done);
}

TEST_CASE("a peer that has another key, or none, is trusted by neither side") {
  const Secret none;
  for (const auto& [mine, theirs] :
       {std::pair{&job_key, &other_job_key}, std::pair{&job_key, &none}, std::pair{&none, &job_key}}) {
    const Record record = talk(Handshake::initiate(*mine, hello), acceptor(*theirs));
    CHECK(record.initiator == State::refused);
    CHECK(record.acceptor != State::done);
    REQUIRE(record.messages.size() == 2);  // the initiator says no more once the acceptor has failed

    Handshake careless = acceptor(*theirs);
    tell(careless, record.messages[0]);
    const std::string answer = said_by(careless);
    const std::string transcript = record.messages[0] + answer.substr(0, 32);
    tell(careless, text_of(hmac_sha256(mine->bytes(), {std::as_bytes(std::span{transcript})})));
    CHECK(careless.state() == State::refused);
  }
}

TEST_CASE("a hello for another rank, purpose, magic or version is refused without an answer") {
  const std::string good = text_of(Handshake::initiate(job_key, hello).outgoing());
  for (Handshake second : {acceptor(job_key, Purpose::link, 4), acceptor(job_key, Purpose::failure_detector),
                           acceptor(job_key, Purpose::store)}) {
    tell(second, good);
    CHECK(second.state() == State::refused);
    CHECK(second.outgoing().empty());
  }
  for (const std::size_t position : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 12u, 13u, 14u, 15u}) {
    Handshake second = acceptor();
    std::string bad = good;
    bad[position] = static_cast<char>(bad[position] ^ 0x40);
    tell(second, bad);
    CHECK(second.state() == State::refused);
    CHECK(second.outgoing().empty());
  }
}

TEST_CASE("a bit changed anywhere on the way is noticed by at least one side, and by whom it could deceive") {
  const std::size_t sizes[] = {60, 64, 32, 1};
  for (std::size_t message = 0; message < 4; ++message)
    for (std::size_t bit = 0; bit < 8 * sizes[message]; ++bit) {
      const Record record =
          talk(Handshake::initiate(job_key, hello), acceptor(), [&](std::size_t number, std::string& bytes) {
            if (number == message) bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
          });
      CAPTURE(message);
      CAPTURE(bit);
      CHECK(record.initiator != State::done);
      if (message < 3) CHECK(record.acceptor != State::done);
    }
}

TEST_CASE("a recorded handshake opens nothing when it is played again, to either side") {
  const Record record = talk(Handshake::initiate(job_key, hello), acceptor());
  Handshake second = acceptor();
  tell(second, record.messages[0]);
  tell(second, record.messages[2]);
  CHECK(second.state() == State::refused);
  Handshake first = Handshake::initiate(job_key, hello);
  tell(first, record.messages[1]);
  CHECK(first.state() == State::refused);
}

TEST_CASE("a side's own bytes prove nothing when they are sent back to it") {
  Handshake first = Handshake::initiate(job_key, hello);
  const std::string said = said_by(first);
  tell(first, said + said.substr(0, 8));
  CHECK(first.state() == State::refused);

  // An acceptor's own digest as the proof it waits for.
  Handshake second = acceptor();
  tell(second, said);
  tell(second, said_by(second).substr(32));
  CHECK(second.state() == State::refused);

  // The hello of a rank to itself, answered by a second connection to that rank: its digest is an acceptor's.
  Handshake third = acceptor();
  Handshake fourth = acceptor();
  tell(third, said);
  tell(fourth, said);
  tell(third, said_by(fourth).substr(32));
  CHECK(third.state() == State::refused);
}

TEST_CASE("a proof made for one connection fits no other, even with the same hello") {
  Handshake first = Handshake::initiate(job_key, hello);
  const std::string said = said_by(first);
  Handshake second = acceptor();
  Handshake third = acceptor();
  tell(second, said);
  tell(third, said);
  tell(first, said_by(second));
  tell(third, said_by(first));
  CHECK(third.state() == State::refused);
}

TEST_CASE("nothing that comes after the end changes it") {
  Handshake second = acceptor();
  tell(second, std::string(60, 'x'));
  REQUIRE(second.state() == State::refused);
  second.received(0);
  second.sent(0);
  second.admit(Purpose::link);
  second.encrypting();
  second.encrypted();
  CHECK(second.state() == State::refused);
  CHECK(second.incoming().empty());
}

}  // namespace tutti
