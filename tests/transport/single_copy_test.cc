// Messages that their receivers read in the sender's memory.

#include "transport/memory/single_copy.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/system_calls.h"
#include "tests/support/sizes.h"
#include "tests/transport/loose_ring.h"
#include "tests/transport/mesh.h"
#include "transport/memory/slot_link.h"

namespace tutti::transport::testing {
namespace {

using Accept = Acceptance::Kind;

using tutti::testing::kibibyte;
using tutti::testing::mebibyte;

// ---- The ring --------------------------------------------------------------------------------------------------

TEST_CASE("a lent message takes one slot, whatever its length, and tells where it lies") {
  LooseRing ring;
  RingWriter& writer = ring.writer;
  RingReader& reader = ring.reader;
  const std::vector<std::byte> bytes(mebibyte);
  CHECK_FALSE(writer.wants_single_copy(bytes.size()));
  reader.wish(1U << CopyChoice::class_of(bytes.size()));
  CHECK(writer.wants_single_copy(bytes.size()));
  CHECK_FALSE(writer.wants_single_copy(2 * bytes.size()));
  CHECK_FALSE(writer.wants_single_copy(1));
  const FrameWords frame = words_of({.length = bytes.size()});
  for (std::size_t i = 0; i < least_areas; ++i) REQUIRE_FALSE(writer.begin_single_copy(frame, bytes));
  CHECK(writer.full());
  CHECK_FALSE(writer.has_freed(1));
  CHECK(reader.single_copy_address(bytes.size()) == reinterpret_cast<std::uintptr_t>(bytes.data()));
  CHECK(writer.arm(0, 2));
  CHECK_FALSE(reader.release());
  CHECK(reader.release());  // the second one is what the sender sleeps for
  CHECK(writer.has_freed(2));
  CHECK_FALSE(writer.arm(0, 2));
  writer.disarm();
  REQUIRE_FALSE(writer.begin({.length = bytes.size()}, std::span{bytes}.first(slot_bytes)));
  while (reader.ready() && reader.single_copy_address(bytes.size()) != 0) CHECK_FALSE(reader.release());
  CHECK(reader.ready());  // where a message for single copy was before
}

// ---- The link --------------------------------------------------------------------------------------------------

const Kind& lent_kind() {
  return *std::ranges::find_if(all_kinds(),
                               [](const Kind& kind) { return std::string_view{kind.name} == "shm, lent"; });
}

/// Two ranks, of which the first has learnt that the other wants long messages by single copy.
struct Lending {
  Mesh mesh{lent_kind(), 2};
  Recorder& receiver = mesh[1].recorder;
  Link& link = mesh[0].transport->open(1, 2);
  Link* incoming = nullptr;

  Lending() {
    receiver.on_received = [this](Link& from) { incoming = &from; };
    mesh[0].send(link, CopyChoice::least_bytes, 0);
    REQUIRE(mesh.run_until([&] { return receiver.messages.size() == 1 && mesh[0].all_sent(); }));
    receiver.messages.clear();
  }
};

TEST_CASE("a sender has a lent message back when it was read, and what follows it stays in order") {
  Lending lending;
  Node& sender = lending.mesh[0];
  const std::size_t before = sender.recorder.tokens.size();
  lending.receiver.decide = [](Link&, const Frame&) { return Accept::park; };
  CHECK_FALSE(sender.send(lending.link, mebibyte, 1, 11));
  CHECK(sender.send(lending.link, 10, 2, 12));  // it has left, though it must be read after the first
  CHECK_FALSE(sender.send(lending.link, 2 * mebibyte, 3, 13));
  lending.mesh.settle();
  CHECK(sender.recorder.tokens.size() == before);
  REQUIRE(lending.receiver.parked.size() == 1);
  lending.receiver.decide = {};
  lending.receiver.parked[0]->resume();
  REQUIRE(lending.mesh.run_until([&] { return lending.receiver.messages.size() == 3 && sender.all_sent(); }));
  CHECK(sender.recorder.tokens[before].second == 11);
  CHECK(sender.recorder.tokens[before + 1].second == 13);
  const std::size_t sizes[] = {mebibyte, 10, 2 * mebibyte};
  for (std::size_t i = 0; i < 3; ++i) CHECK(lending.receiver.messages[i].bytes == pattern(sizes[i], i + 1));
}

TEST_CASE("more messages are lent at a time than there are slots") {
  Lending lending;
  Node& sender = lending.mesh[0];
  for (std::size_t i = 0; i < 3 * least_areas; ++i) sender.send(lending.link, 64 * kibibyte + i, i);
  REQUIRE(
      lending.mesh.run_until([&] { return lending.receiver.messages.size() == 3 * least_areas && sender.all_sent(); }));
  for (std::size_t i = 0; i < 3 * least_areas; ++i)
    CHECK(lending.receiver.messages[i].bytes == pattern(64 * kibibyte + i, i));
}

TEST_CASE("a short message does not wait until a long one of another rank has been copied") {
  for (const char* const name : {"inproc", "shm"}) {
    CAPTURE(name);
    const auto kind = std::ranges::find(all_kinds(), std::string_view{name}, &Kind::name);
    REQUIRE(kind != all_kinds().end());
    Mesh mesh{*kind, 3};
    const auto& messages = mesh[2].recorder.messages;
    const auto link_of = [&](int from) -> Link& { return mesh[from].transport->open(2, 1); };
    for (const int from : {0, 1}) mesh[from].send(link_of(from), 1, 1);
    REQUIRE(mesh.run_until([&] { return messages.size() == 2; }));
    for (const int with_long : {0, 1}) {  // whichever link is looked at first
      const std::size_t before = messages.size();
      mesh[with_long].send(link_of(with_long), 64 * kibibyte, 2);
      mesh[1 - with_long].send(link_of(1 - with_long), 8, 3);
      REQUIRE(mesh.run_until([&] { return messages.size() == before + 2; }));
      CHECK(messages[before].peer == 1 - with_long);
    }
  }
}

TEST_CASE("an unasked message is no single copy: its sender goes on though nobody wants it yet") {
  Lending lending;
  lending.receiver.decide = [](Link&, const Frame&) { return Accept::park; };
  CHECK(lending.mesh[0].send(lending.link, CopyChoice::least_bytes, 1, 0, FrameKind::eager));
}

TEST_CASE("a sender that can wait lends an eager message, whose receiver takes it at once or through its sink") {
  for (const bool at_once : {true, false}) {
    for (const bool asks : {true, false}) {
      CAPTURE(at_once);
      CAPTURE(asks);
      Lending lending;
      Node& sender = lending.mesh[0];
      const std::size_t sent_before = sender.recorder.tokens.size();
      const std::vector<std::byte> bytes = pattern(CopyChoice::least_bytes, 1);
      const FrameWords frame = words_of({.kind = FrameKind::eager, .length = bytes.size()});
      REQUIRE(lending.link.try_lend(frame, bytes));
      CHECK_FALSE(lending.link.is_returned());
      CHECK_FALSE(lending.link.try_lend(frame, bytes));
      CHECK(sender.send(lending.link, 10, 2, 12));  // such as a credit
      if (!asks) lending.link.await_return(11);
      if (at_once) {
        std::vector<std::byte> taken(bytes.size());
        REQUIRE(lending.incoming->take(frame, taken, 0) == Link::Taken::taken);
        CHECK(taken == bytes);
      }
      const std::size_t others = at_once ? 1 : 2;
      const auto all_came = [&] { return lending.receiver.messages.size() == others; };
      if (asks) {
        while (!all_came()) lending.mesh[1].step();
        CHECK(lending.link.is_returned());
        CHECK(sender.recorder.tokens.size() == sent_before);
      } else {
        REQUIRE(lending.mesh.run_until([&] { return all_came() && sender.recorder.tokens.size() > sent_before; }));
        CHECK(sender.recorder.tokens.back().second == 11);
      }
      if (!at_once) CHECK(lending.receiver.messages[0].bytes == bytes);
      CHECK(lending.receiver.messages[others - 1].bytes == pattern(10, 2));
    }
  }
}

TEST_CASE("a message that is sent at once is copied, even if single copy is wished") {
  for (const FrameKind kind : {FrameKind::data, FrameKind::eager}) {
    Lending lending;
    std::vector<std::byte> bytes = pattern(64 * kibibyte, 1);
    REQUIRE(lending.link.try_send(words_of({.kind = kind, .length = bytes.size()}), bytes));
    std::ranges::fill(bytes, std::byte{0});  // its caller has it back
    REQUIRE(lending.mesh.run_until([&] { return lending.receiver.messages.size() == 1; }));
    CHECK(lending.receiver.messages[0].bytes == pattern(64 * kibibyte, 1));
  }
}

TEST_CASE("a message is not lent where it is not wished, or behind others") {
  Lending lending;
  const std::vector<std::byte> bytes = pattern(mebibyte, 1);
  const auto frame = [](std::size_t size) { return words_of({.kind = FrameKind::eager, .length = size}); };
  const auto brief = std::span{bytes}.first(CopyChoice::least_bytes - 1);
  CHECK_FALSE(lending.link.try_lend(frame(brief.size()), brief));
  lending.receiver.decide = [](Link&, const Frame&) { return Accept::park; };
  CHECK_FALSE(lending.mesh[0].send(lending.link, mebibyte, 1, 11));
  CHECK_FALSE(lending.link.try_lend(frame(bytes.size()), bytes));
}

TEST_CASE("a lent message that cannot be read at once is left to the sink, which tells why") {
  Lending lending;
  const std::vector<std::byte> bytes = pattern(mebibyte, 1);
  const FrameWords frame = words_of({.kind = FrameKind::eager, .length = bytes.size()});
  REQUIRE(lending.link.try_lend(frame, bytes));
  std::vector<std::byte> taken(bytes.size());
  system_calls::refuse(SystemCall::process_vm_readv, EPERM, 0);
  CHECK(lending.incoming->take(frame, taken, 0) == Link::Taken::something_else);
  lending.mesh[1].step();
  system_calls::refuse_none();
  REQUIRE(lending.receiver.failures.size() == 1);
  CHECK(lending.receiver.failures[0].text.find("TUTTI_SINGLE_COPY=off") != std::string::npos);
}

TEST_CASE("an abort ends a message that is being read, with the reason") {
  for (const Accept accept : {Accept::memory, Accept::views}) {
    Lending lending;
    lending.receiver.decide = [=](Link&, const Frame&) { return accept; };
    lending.mesh[0].send(lending.link, 4 * mebibyte, 1);
    // Between two pieces of it the sender gives up.
    lending.mesh[1].step();
    REQUIRE(lending.receiver.messages.empty());
    lending.mesh[0].transport->abort_channel(2, Error(ErrorCode::timeout, "too late", 0, 5));
    lending.mesh[1].transport->progress();  // before the kernel has told of the end
    REQUIRE(lending.receiver.failures.size() == 1);
    CHECK(lending.receiver.messages.empty());
    CHECK(lending.receiver.failures[0].code == ErrorCode::timeout);
    CHECK(lending.receiver.failures[0].operation == 5);
  }
}

TEST_CASE("an abort is what is told where the memory is gone by then") {
  Lending lending;
  const std::size_t size = mebibyte;
  void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(mapped != MAP_FAILED);
  lending.link.send({.length = size}, {static_cast<std::byte*>(mapped), size}, 0);
  lending.mesh[0].transport->abort_channel(2, Error(ErrorCode::timeout, "too late", 0, 5));
  ::munmap(mapped, size);
  lending.mesh[1].transport->progress();
  REQUIRE(lending.receiver.failures.size() == 1);
  CHECK(lending.receiver.failures[0].code == ErrorCode::timeout);
}

TEST_CASE("a rank that is cut off while its memory is read is gone, whatever it was able to say") {
  Lending lending;
  lending.mesh[0].send(lending.link, mebibyte, 1);
  lending.mesh[0].transport->cut();
  lending.mesh[1].transport->progress();
  REQUIRE(lending.receiver.failures.size() == 1);
  CHECK(lending.receiver.failures[0].code == ErrorCode::peer_lost);
  CHECK(lending.receiver.messages.empty());
}

TEST_CASE("where the system forbids it, all comes through slots") {
  system_calls::refuse(SystemCall::process_vm_readv, EPERM, 0);
  {
    Lending lending;
    CHECK_FALSE(lending.mesh[0].send(lending.link, 2 * mebibyte, 1));  // longer than a ring
    CHECK(lending.mesh[0].send(lending.link, 0, 1) == false);
    REQUIRE(lending.mesh.run_until([&] { return lending.receiver.messages.size() == 2; }));
    CHECK(lending.receiver.messages[0].bytes == pattern(2 * mebibyte, 1));
  }
  system_calls::refuse_none();
}

TEST_CASE("a sender whose memory cannot be read any more is named, with the remedy") {
  Lending lending;
  lending.mesh[0].send(lending.link, mebibyte, 1);
  system_calls::refuse(SystemCall::process_vm_readv, EPERM, 0);
  REQUIRE(lending.mesh.run_until([&] { return !lending.receiver.failures.empty(); }));
  system_calls::refuse_none();
  CHECK(lending.receiver.failures[0].code == ErrorCode::peer_lost);  // the sender is at fault, not the reader
  CHECK(lending.receiver.failures[0].rank == 0);
  CHECK(lending.receiver.failures[0].text.find("TUTTI_SINGLE_COPY=off") != std::string::npos);
  CHECK(lending.receiver.messages.empty());
}

TEST_CASE("the memory of a process is read by another of its threads when the first one has ended") {
  Lending lending;
  lending.mesh[0].send(lending.link, mebibyte, 1);
  system_calls::refuse(SystemCall::process_vm_readv, ESRCH, 1);
  REQUIRE(
      lending.mesh.run_until([&] { return !lending.receiver.messages.empty() || !lending.receiver.failures.empty(); }));
  system_calls::refuse_none();
  CHECK(lending.receiver.failures.empty());
  REQUIRE(lending.receiver.messages.size() == 1);
  CHECK(lending.receiver.messages[0].bytes == pattern(mebibyte, 1));
}

TEST_CASE("a sender whose process is gone while its memory is read has died") {
  Lending lending;
  lending.mesh[0].send(lending.link, mebibyte, 1);
  system_calls::refuse(SystemCall::process_vm_readv, ESRCH, 0);
  REQUIRE(lending.mesh.run_until([&] { return !lending.receiver.failures.empty(); }));
  system_calls::refuse_none();
  CHECK(lending.receiver.failures[0].code == ErrorCode::peer_lost);
  CHECK(lending.receiver.failures[0].text.find("0 of 1048576 bytes of a message had arrived") != std::string::npos);
}

}  // namespace
}  // namespace tutti::transport::testing
