// Rules of the driver: order in streams and between them, events, kernels.

#include <cmath>

#include "tests/gpu/contract.h"

namespace tutti::testing {

TEST_CASE("stream: commands run in order, without the host") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  const DeviceMemory memory{4096};
  const HostMemory host{4096};
  bench.on(stream, [&](Commands& to) {
    to.fill(memory.address(), 1, 4096);
    for (unsigned i = 1; i <= 50; ++i)
      to.launch(bench.add, {2, 32}, AddArguments{memory.address(), memory.address(), 1024, i});
    to.copy(host.address(), memory.address(), 4096);
    to.write(bench.at(0), 1);
    CHECK(to.count() == 53);
  });
  REQUIRE(soon([&] { return bench.word(0).load(std::memory_order_acquire) == 1; }));
  const auto* const found = reinterpret_cast<const std::uint32_t*>(host.data());
  for (int i = 0; i < 1024; ++i) REQUIRE(found[i] == 0x01010101 + 50 * 51 / 2);
}

TEST_CASE("stream: a query says whether it is idle") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  CHECK(bench.idle(stream));
  bench.block(stream, 0);
  CHECK(driver().cuStreamQuery.result(stream.get()) == Result::not_ready);
  bench.word(0) = 1;
  CHECK(bench.drains(stream));
}

TEST_CASE("stream: another one goes on while one waits") {
  const Bench bench;
  const OwnStream waiting = bench.stream(), other = bench.stream();
  bench.block(waiting, 0);
  bench.on(other, [&](Commands& to) {
    to.launch(bench.store, {1, 1}, StoreArguments{bench.at(1), 1});
    to.write(bench.at(2), 1);
  });
  CHECK(bench.drains(other));
  CHECK(!bench.idle(waiting));
  bench.word(0) = 1;
  CHECK(bench.drains(waiting));
}

TEST_CASE("stream: all waiting streams go on when the host stores their words") {
  const Bench bench;
  std::vector<OwnStream> streams;
  for (int i = 0; i < 24; ++i) streams.push_back(bench.stream());
  for (int i = 0; i < 24; ++i) bench.block(streams[static_cast<std::size_t>(i)], i);
  for (int i = 24; i-- > 0;) bench.word(i) = 1;
  for (const OwnStream& one : streams) CHECK(bench.drains(one));
}

TEST_CASE("stream: synchronising waits for its commands") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  bench.on(stream, [&](Commands& to) {
    to.launch(bench.spend, {1, 1}, SpendArguments{20'000'000});
    to.write(bench.at(0), 1);
  });
  bench.synchronize(stream);
  CHECK(bench.word(0) == 1);
}

TEST_CASE("stream: synchronising the context waits for all streams") {
  const Bench bench;
  const OwnStream one = bench.stream(), other = bench.stream();
  for (const OwnStream* stream : {&one, &other})
    bench.on(*stream, [&](Commands& to) {
      to.launch(bench.spend, {1, 1}, SpendArguments{5'000'000});
      to.write(bench.at(stream == &one ? 0 : 1), 1);
    });
  CHECK(program_calls().cuCtxSynchronize() == Result::success);
  CHECK(bench.word(0) == 1);
  CHECK(bench.word(1) == 1);
}

TEST_CASE("stream: a destroyed one still runs what it has") {
  const Bench bench;
  {
    const OwnStream stream = bench.stream();
    bench.block(stream, 0);
    bench.on(stream, [&](Commands& to) { to.write(bench.at(1), 1); });
  }
  bench.word(0) = 1;
  CHECK(soon([&] { return bench.word(1) == 1; }));
}

TEST_CASE("stream: the legacy default one is in order with blocking streams, and with no others") {
  const Bench bench;
  cuda::Stream blocking = nullptr;
  driver().cuStreamCreateWithPriority(&blocking, 0, 0);
  const OwnStream free = bench.stream();
  bench.on(blocking, [&](Commands& to) { to.wait(bench.at(0), 1); });
  bench.on(cuda::legacy_stream, [&](Commands& to) { to.write(bench.at(1), 1); });
  bench.on(free, [&](Commands& to) { to.write(bench.at(2), 1); });
  CHECK(soon([&] { return bench.word(2) == 1; }));
  CHECK(not_soon([&] { return bench.word(1) == 1; }));
  bench.word(0) = 1;
  CHECK(soon([&] { return bench.word(1) == 1; }));
  // And the other way round.
  bench.on(nullptr, [&](Commands& to) { to.wait(bench.at(3), 1); });
  bench.on(blocking, [&](Commands& to) { to.write(bench.at(4), 1); });
  CHECK(not_soon([&] { return bench.word(4) == 1; }));
  bench.word(3) = 1;
  CHECK(soon([&] { return bench.word(4) == 1; }));
  driver().cuStreamDestroy(blocking);
}

TEST_CASE("stream: none is captured unless the program says so") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  CHECK(!cuda::capture_of(stream.get()));
}

TEST_CASE("event: one that was never recorded holds nobody up") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  const OwnEvent event = bench.event();
  CHECK(event.done());
  bench.on(stream, [&](Commands& to) { to.wait(event.get()); });
  CHECK(bench.drains(stream));
}

TEST_CASE("event: it is done when all before its record has run") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  const OwnEvent event = bench.event();
  bench.block(stream, 0);
  bench.on(stream, [&](Commands& to) { to.record(event.get()); });
  CHECK(not_soon([&] { return event.done(); }));
  bench.word(0) = 1;
  CHECK(soon([&] { return event.done(); }));
}

TEST_CASE("event: another stream waits for it") {
  const Bench bench;
  const OwnStream first = bench.stream(), second = bench.stream();
  const OwnEvent event = bench.event();
  bench.block(first, 0);
  bench.on(first, [&](Commands& to) { to.record(event.get()); });
  bench.on(second, [&](Commands& to) {
    to.wait(event.get());
    to.write(bench.at(1), 1);
  });
  CHECK(not_soon([&] { return bench.word(1) == 1; }));
  bench.word(0) = 1;
  CHECK(soon([&] { return bench.word(1) == 1; }));
}

TEST_CASE("event: a wait is for the last record before it, not for later ones") {
  const Bench bench;
  const OwnStream first = bench.stream(), second = bench.stream();
  const OwnEvent event = bench.event();
  bench.on(first, [&](Commands& to) { to.record(event.get()); });
  bench.on(second, [&](Commands& to) { to.wait(event.get()); });
  bench.block(first, 0);
  bench.on(first, [&](Commands& to) { to.record(event.get()); });
  bench.on(second, [&](Commands& to) { to.write(bench.at(1), 1); });
  CHECK(soon([&] { return bench.word(1) == 1; }));
  CHECK(!event.done());
  bench.word(0) = 1;
  CHECK(bench.drains(first));
}

TEST_CASE("event: destroyed, it still holds those up that wait") {
  const Bench bench;
  const OwnStream first = bench.stream(), second = bench.stream();
  bench.block(first, 0);
  {
    const OwnEvent event = bench.event();
    bench.on(first, [&](Commands& to) { to.record(event.get()); });
    bench.on(second, [&](Commands& to) {
      to.wait(event.get());
      to.write(bench.at(1), 1);
    });
  }
  CHECK(not_soon([&] { return bench.word(1) == 1; }));
  bench.word(0) = 1;
  CHECK(soon([&] { return bench.word(1) == 1; }));
}

TEST_CASE("event: two of them measure time") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  cuda::Event first = nullptr, second = nullptr;
  driver().cuEventCreate(&first, 0);
  driver().cuEventCreate(&second, 0);
  bench.on(stream, [&](Commands& to) {
    to.record(first);
    to.launch(bench.spend, {1, 1}, SpendArguments{10'000'000});
    to.record(second);
  });
  CHECK(program_calls().cuEventSynchronize(second) == Result::success);
  float milliseconds = 0;
  driver().cuEventElapsedTime(&milliseconds, first, second);
  CHECK(milliseconds >= 9.0f);
  CHECK(milliseconds < 5000.0f);
  driver().cuEventDestroy(first);
  driver().cuEventDestroy(second);
}

TEST_CASE("event: the time between two is that at which their streams passed them") {
  const Bench bench;
  const OwnStream waiting = bench.stream(), other = bench.stream();
  const OwnEvent first{bench.context(), OwnEvent::Kind::timed}, second{bench.context(), OwnEvent::Kind::timed},
      third{bench.context(), OwnEvent::Kind::timed};
  bench.on(waiting, [&](Commands& to) { to.record(first.get()); });
  bench.synchronize(waiting);
  bench.block(waiting, 0);
  bench.on(waiting, [&](Commands& to) { to.record(second.get()); });
  CHECK(not_soon([&] { return second.done(); }));  // 30 ms
  bench.on(other, [&](Commands& to) { to.record(third.get()); });
  CHECK(bench.drains(other));
  bench.word(0) = 1;
  CHECK(bench.drains(waiting));
  const auto whole = cuda::milliseconds_between(first.get(), second.get());
  const auto begin = cuda::milliseconds_between(first.get(), third.get());
  const auto rest = cuda::milliseconds_between(third.get(), second.get());
  REQUIRE((whole && begin && rest));
  CHECK(*begin >= 29.0);
  CHECK(*rest >= 0.0);
  CHECK(std::abs(*whole - *begin - *rest) < 0.01);
}

TEST_CASE("event: the time between two is not known before both have happened, nor of one that is not timed") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  const OwnEvent first{bench.context(), OwnEvent::Kind::timed}, second{bench.context(), OwnEvent::Kind::timed},
      plain = bench.event();
  float milliseconds = 0;
  const auto between = [&](const OwnEvent& one, const OwnEvent& other) {
    return driver().cuEventElapsedTime.result(&milliseconds, one.get(), other.get());
  };
  bench.on(stream, [&](Commands& to) {
    to.record(first.get());
    to.record(plain.get());
  });
  CHECK(bench.drains(stream));
  CHECK(between(first, second) == Result::invalid_handle);  // never recorded
  CHECK(between(first, plain) == Result::invalid_handle);
  bench.block(stream, 0);
  bench.on(stream, [&](Commands& to) { to.record(second.get()); });
  CHECK(between(first, second) == Result::not_ready);
  bench.word(0) = 1;
  CHECK(bench.drains(stream));
  CHECK(between(first, second) == Result::success);
}

TEST_CASE("kernel: an unknown name, and data that is no image, are refused") {
  const cuda::KernelImage image{small_kernels()};
  CHECK_THROWS_AS((void)image.kernel("no_such_kernel"), std::exception);
  static const char nonsense[256] = "this is no image of kernels";
  cuda::LibraryHandle library = nullptr;
  // A driver may look at an image only when a kernel is wanted.
  if (driver().cuLibraryLoadData.result(&library, nonsense, nullptr, nullptr, 0, nullptr, nullptr, 0) !=
      Result::success)
    return;
  cuda::Kernel kernel = nullptr;
  CHECK(driver().cuLibraryGetKernel.result(&kernel, library, "small_add") != Result::success);
}

TEST_CASE("kernel: it has attributes") {
  const Bench bench;
  void* function = nullptr;
  int registers = 0, local = -1;
  driver().cuKernelGetFunction(&function, bench.add);
  driver().cuFuncGetAttribute(&registers, cuda::FunctionAttribute::registers, function);
  driver().cuFuncGetAttribute(&local, cuda::FunctionAttribute::local_bytes, function);
  CHECK(registers > 0);
  CHECK(local == 0);
}

TEST_CASE("kernel: its argument is copied when it is enqueued") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  bench.block(stream, 0);
  StoreArguments argument{bench.at(1), 17};
  bench.on(stream, [&](Commands& to) { to.launch(bench.store, {1, 1}, argument); });
  argument = {bench.at(2), 18};
  bench.word(0) = 1;
  CHECK(bench.drains(stream));
  CHECK(bench.word(1) == 17);
  CHECK(bench.word(2) == 0);
}

TEST_CASE("kernel: a grid without blocks or with too many threads is refused") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  SpendArguments argument{0};
  void* parameters[] = {&argument};
  for (const auto& [blocks, threads] : {std::pair{0u, 32u}, std::pair{1u, 0u}, std::pair{1u, 2048u}})
    CHECK(driver().cuLaunchKernel.result(bench.spend, blocks, 1, 1, threads, 1, 1, 0, stream.get(), parameters,
                                         nullptr) == Result::invalid_value);
}

}  // namespace tutti::testing
