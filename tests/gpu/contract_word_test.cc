// Rules of the driver: words for which streams wait, and which they write; calls that wait while a stream does.

#include <cstdint>
#include <limits>

#include "tests/gpu/contract.h"

namespace tutti::testing {
namespace {

/// A stream that waits for a word to become 42 goes on after `action`, and not before.
void wakes(Address word, Bench& bench, const std::function<void(Commands&)>& action) {
  const OwnStream waiting = bench.stream(), other = bench.stream();
  bench.on(waiting, [&](Commands& to) {
    to.wait(word, 42);
    to.write(bench.at(9), 1);
  });
  CHECK(not_soon([&] { return bench.word(9) == 1; }));
  bench.on(other, action);
  CHECK(soon([&] { return bench.word(9) == 1; }));
  CHECK(bench.drains(other));
}

/// While a stream waits, `call` does not return; it does when the stream goes on.
void waits_for_device(Bench& bench, const std::function<void()>& call) {
  const OwnStream stream = bench.stream();
  bench.block(stream, 0);
  std::atomic<bool> returned{false};
  std::thread caller{[&] {
    const cuda::Current current{bench.context()};
    call();
    returned = true;
  }};
  CHECK(not_soon([&] { return returned.load(); }));
  bench.word(0) = 1;
  CHECK(soon([&] { return returned.load(); }));
  caller.join();
}

}  // namespace

TEST_CASE("word: a write is seen by the host, and all before it") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  const DeviceMemory memory{1 << 20};
  const HostMemory host{1 << 20};
  for (std::uint64_t round = 1; round <= 20; ++round) {
    bench.on(stream, [&](Commands& to) {
      to.fill(memory.address(), static_cast<unsigned char>(round), 1 << 20);
      to.copy(host.address(), memory.address(), 1 << 20);
      to.write(bench.at(0), round);
    });
    REQUIRE(soon([&] { return bench.word(0).load(std::memory_order_acquire) == round; }));
    CHECK(host.data()[0] == static_cast<std::byte>(round));
    CHECK(host.data()[(1 << 20) - 1] == static_cast<std::byte>(round));
  }
}

TEST_CASE("word: a wait passes at once if the word is large enough") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  bench.word(0) = 7;
  bench.on(stream, [&](Commands& to) {
    to.wait(bench.at(0), 7);
    to.wait(bench.at(0), 3);
    to.wait(bench.at(0), 0);
  });
  CHECK(bench.drains(stream));
}

TEST_CASE("word: numbers are compared cyclically, so INT64_MAX ends waits and UINT64_MAX does not") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  bench.on(stream, [&](Commands& to) { to.wait(bench.at(0), 5); });
  bench.word(0) = std::numeric_limits<std::uint64_t>::max();
  CHECK(not_soon([&] { return bench.idle(stream); }));
  bench.word(0) = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  CHECK(bench.drains(stream));
}

TEST_CASE("word: a store of the host wakes a stream") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  bench.block(stream, 0);
  CHECK(not_soon([&] { return bench.idle(stream); }));
  bench.word(0).store(1, std::memory_order_release);
  CHECK(bench.drains(stream));
}

TEST_CASE("word: a write of another stream wakes it, in host and device memory") {
  Bench bench;
  wakes(bench.at(0), bench, [&](Commands& to) { to.write(bench.at(0), 42); });
  const DeviceMemory memory{4096};
  const OwnStream stream = bench.stream();
  bench.on(stream, [&](Commands& to) { to.fill(memory.address(), 0, 4096); });
  bench.synchronize(stream);
  bench.word(9) = 0;
  wakes(memory.address() + 64, bench, [&](Commands& to) { to.write(memory.address() + 64, 42); });
}

TEST_CASE("word: a copy wakes it") {
  Bench bench;
  bench.word(3) = 42;
  wakes(bench.at(0), bench, [&](Commands& to) { to.copy(bench.at(0), bench.at(3), 8); });
}

TEST_CASE("word: a kernel's store wakes it") {
  Bench bench;
  wakes(bench.at(0), bench, [&](Commands& to) { to.launch(bench.store, {1, 1}, StoreArguments{bench.at(0), 42}); });
}

TEST_CASE("word: waits and writes of one batch are in order") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  bench.on(stream, [&](Commands& to) {
    to.write(bench.at(1), 1);
    to.wait(bench.at(0), 1);
    to.write(bench.at(2), 1);
    for (std::uint64_t i = 0; i < 100; ++i) to.write(bench.at(3), i);
  });
  CHECK(soon([&] { return bench.word(1) == 1; }));
  CHECK(not_soon([&] { return bench.word(2) == 1; }));
  bench.word(0) = 1;
  CHECK(bench.drains(stream));
  CHECK(bench.word(2) == 1);
  CHECK(bench.word(3) == 99);
}

TEST_CASE("word: single waits and writes are the same as those of a batch") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  CHECK(program_calls().cuStreamWaitValue64(stream.get(), bench.at(0), 1, cuda::wait_value_at_least) ==
        Result::success);
  CHECK(program_calls().cuStreamWriteValue64(stream.get(), bench.at(1), 5, 0) == Result::success);
  CHECK(not_soon([&] { return bench.word(1) == 5; }));
  bench.word(0) = 1;
  CHECK(bench.drains(stream));
  CHECK(bench.word(1) == 5);
}

TEST_CASE("word: an address that is not a multiple of 8 is refused") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  CHECK(program_calls().cuStreamWriteValue64(stream.get(), bench.at(0) + 4, 1, 0) == Result::invalid_value);
}

TEST_CASE("pending: memory can be allocated, and events queried, while a stream waits") {
  const Bench bench;
  const OwnStream stream = bench.stream(), other = bench.stream();
  const OwnEvent event = bench.event();
  bench.block(stream, 0);
  Address address = 0;
  CHECK(driver().cuMemAlloc.result(&address, 4 << 20) == Result::success);
  CHECK(event.done());
  bench.on(other, [&](Commands& to) { to.record(event.get()); });
  CHECK(soon([&] { return event.done(); }));
  CHECK(cuda::facts_of(address).kind == cuda::PointerFacts::Kind::device);
  CHECK(!bench.idle(stream));
  bench.word(0) = 1;
  CHECK(bench.drains(stream));
  driver().cuMemFree(address);
}

TEST_CASE("pending: freeing device memory waits for all streams") {
  Bench bench;
  DeviceMemory memory{4 << 20};
  waits_for_device(bench, [&] { memory = DeviceMemory{}; });
}

TEST_CASE("pending: the first use of a kernel in a context waits for all streams") {
  Bench bench;
  const cuda::KernelImage again{small_kernels()};
  const cuda::Kernel kernel = again.kernel("small_add");
  waits_for_device(bench, [&] { cuda::KernelImage::load(kernel); });
}

TEST_CASE("pending: a kernel that was loaded can be launched") {
  const Bench bench;
  const OwnStream stream = bench.stream(), other = bench.stream();
  bench.block(stream, 0);
  bench.on(other, [&](Commands& to) { to.launch(bench.store, {1, 1}, StoreArguments{bench.at(1), 1}); });
  CHECK(soon([&] { return bench.word(1) == 1; }));
  bench.word(0) = 1;
  CHECK(bench.drains(stream));
}

}  // namespace tutti::testing
