// The challenge. Nothing but the other side's true words, unchanged and in order, makes anybody trust anybody.

#include <algorithm>

#include "lib/security/handshake.h"
#include "tests/fuzz/input.h"

using namespace tutti;
using namespace tutti::fuzz;
using State = Handshake::State;

namespace {

const Secret key = Secret::from_text("the secret of this job", "test");
Hello hello(bool encrypted) {
  return {.from = 1, .to = 0, .channel = 7, .purpose = Purpose::link, .encrypted = encrypted};
}

/// Lets `side` hear the text in pieces of the sizes that the input says; returns how much of it was wanted.
std::size_t tell(Handshake& side, std::string_view text, Input& input) {
  std::size_t heard = 0;
  while (!text.empty() && !side.incoming().empty()) {
    const auto room = side.incoming();
    require(room.size() <= Handshake::answer_size);
    const std::size_t count = std::min({room.size(), text.size(), std::size_t{1} + input.number()});
    std::ranges::copy(std::as_bytes(std::span{text}.first(count)), room.begin());
    side.received(count);
    text.remove_prefix(count);
    heard += count;
  }
  return heard;
}

std::string said_by(Handshake& side) {
  const auto bytes = side.outgoing();
  require(bytes.size() <= Handshake::answer_size);
  std::string text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  side.sent(bytes.size());
  return text;
}

/// A stranger talks to one side, and never gets in.
void talk_alone(Handshake side, Input& input) {
  for (int turn = 0; turn < 8 && side.state() == State::under_way; ++turn) {
    said_by(side);
    tell(side, input.take(input.number()), input);
  }
  require(side.state() == State::under_way || side.state() == State::refused);
}

/// Two that know the key talk, and somebody changes what they say.
void talk_changed(bool encrypted, Input& input) {
  Handshake first = Handshake::initiate(key, hello(encrypted));
  Handshake second = Handshake::accept(key, Purpose::link, 0, encrypted);
  bool changed = false;
  for (int turn = 0; turn < 4; ++turn) {
    Handshake& from = turn % 2 == 0 ? first : second;
    Handshake& to = turn % 2 == 0 ? second : first;
    std::string text = said_by(from);
    const std::string said = text;
    if (input.number() % 4 == 0)
      for (char& byte : text) byte = static_cast<char>(byte ^ input.number());
    changed = changed || text != said;
    tell(to, text, input);
    for (Handshake* side : {&first, &second})
      if (side->state() == State::proved) {
        side->encrypting();
        side->encrypted();
      }
  }
  if (changed) require(first.state() != State::done);
  if (!changed) require(first.state() == State::done && second.state() == State::done);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{data, size};
  const int number = input.number() % 6;
  const int kind = number % 3;
  const bool encrypted = number >= 3;
  if (kind == 0) talk_alone(Handshake::accept(key, Purpose::link, 0, encrypted), input);
  if (kind == 1) talk_alone(Handshake::initiate(key, hello(encrypted)), input);
  if (kind == 2) talk_changed(encrypted, input);
  return 0;
}
