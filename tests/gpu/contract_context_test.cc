// Rules of the driver: starting it, errors, contexts.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <set>
#include <thread>

#include "tests/gpu/contract.h"
#include "tests/gpu/other_context.h"
#include "tutti/error.h"

namespace tutti::testing {
namespace {

Context current_context() {
  Context found = nullptr;
  driver().cuCtxGetCurrent(&found);
  return found;
}

struct Announcement {
  Announcement() {
    if (!cuda::available()) {
      std::printf("driver: none: %s\n", cuda::why_not().c_str());
      // Skipped, where a test wants the driver of this machine.
      if (std::getenv("GPU_OR_SKIP") != nullptr) std::_Exit(77);
      return;
    }
    const bool fake = give_small_kernels();
    std::printf("driver: %s, %s\n", fake ? "fake" : "real", cuda::facts_of(0).name.c_str());
    std::fflush(stdout);
  }
} announcement;

}  // namespace

TEST_CASE("driver: it starts, and says what it has") {
  REQUIRE(cuda::available());
  CHECK(cuda::why_not() == "");
  CHECK(driver().version >= 12000);
  CHECK(driver().devices >= 1);
  CHECK(cuda::driver_is_loaded());
  const cuda::DeviceFacts facts = cuda::facts_of(0);
  CHECK(facts.name != "");
  CHECK(facts.bus.size() >= 12);
  CHECK(facts.capability >= 70);
  CHECK(facts.multiprocessors > 0);
  CHECK(facts.uuid == cuda::facts_of(0).uuid);
  CHECK(facts.uuid != cuda::Uuid{});
}

TEST_CASE("driver: an unknown device is refused") {
  cuda::Device device = 0;
  CHECK(program_calls().cuDeviceGet(&device, driver().devices) == Result::invalid_device);
}

TEST_CASE("driver: errors have names") {
  CHECK(cuda::text_of(Result::out_of_memory).find("CUDA_ERROR_OUT_OF_MEMORY (") == 0);
  CHECK(cuda::text_of(Result::not_ready).find("CUDA_ERROR_NOT_READY (") == 0);
  CHECK(cuda::text_of(static_cast<Result>(12345)) == "error 12345");
}

TEST_CASE("driver: a failed call throws, and says which it was and the remedy") {
  const Bench bench;
  try {
    const DeviceMemory too_large{std::size_t{1} << 50};
    FAIL("there is no such memory");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::system);
    CHECK(std::string{error.what()}.find("cuMemAlloc") != std::string::npos);
    CHECK(std::string{error.what()}.find("CUDA_ERROR_OUT_OF_MEMORY") != std::string::npos);
    CHECK(std::string{error.what()}.find("free memory of the GPU") != std::string::npos);
  }
  try {
    cuda::fail("cuMemHostAlloc", Result::out_of_memory);
  } catch (const Error& error) {
    CHECK(std::string{error.what()}.find("the host has no more memory to pin") != std::string::npos);
  }
}

TEST_CASE("driver: it does not work in a child by fork()") {
  const cuda::Driver& call = driver();
  const pid_t child = ::fork();
  if (child == 0) {
    int count = 0;
    const bool refuses =
        call.cuDeviceGetCount.result(&count) != Result::success || call.cuInit.result(0) != Result::success;
    const bool says = !cuda::available() && cuda::why_not().find("fork()") != std::string::npos;
    std::_Exit((refuses ? 0 : 1) + (says ? 0 : 2));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("context: a thread has none at first, and can do nothing without") {
  std::thread{[] {
    CHECK(current_context() == nullptr);
    Address address = 0;
    CHECK(driver().cuMemAlloc.result(&address, 4096) == Result::invalid_context);
    Context popped = nullptr;
    CHECK(driver().cuCtxPopCurrent.result(&popped) == Result::invalid_context);
  }}.join();
}

TEST_CASE("context: a device has one primary context") {
  const cuda::PrimaryContext one{0}, other{0};
  CHECK(one.get() == other.get());
  CHECK(cuda::device_of(one.get()) == 0);
}

TEST_CASE("context: push and pop nest") {
  const cuda::PrimaryContext primary{0};
  const OtherContext own;
  const Context before = current_context();
  {
    const cuda::Current first{primary.get()};
    CHECK(current_context() == primary.get());
    {
      const cuda::Current second{own.context};
      CHECK(current_context() == own.context);
    }
    CHECK(current_context() == primary.get());
  }
  CHECK(current_context() == before);
}

TEST_CASE("context: what this library does leaves the caller's current one as it was") {
  const Bench bench;
  const OtherContext own;
  const cuda::Current callers{own.context};
  {
    const OwnStream stream = bench.stream();
    const OwnEvent event = bench.event();
    bench.on(stream, [&](Commands& to) { to.record(event.get()); });
    CHECK(bench.drains(stream));
    CHECK(event.done());
    CHECK(cuda::device_of(bench.context()) == 0);
    CHECK(current_context() == own.context);
  }
  CHECK(current_context() == own.context);
  DeviceMemory memory;
  {
    const cuda::Current of_memory{bench.context()};
    memory = DeviceMemory{4096};
  }
  memory = DeviceMemory{};
  CHECK(current_context() == own.context);
}

TEST_CASE("context: a stream knows its context, and the default stream has that of the memory") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  CHECK(cuda::context_of(stream.get(), 0) == bench.context());
  const OtherContext own;
  const OwnStream other{own.context};
  CHECK(cuda::context_of(other.get(), 0) == own.context);
  const cuda::Current current{own.context};
  const DeviceMemory memory{4096};
  CHECK(cuda::context_of(nullptr, memory.address()) == own.context);
  CHECK(cuda::context_of(cuda::legacy_stream, memory.address() + 100) == own.context);
  static char own_memory[16];
  CHECK_THROWS_AS(cuda::context_of(nullptr, cuda::address_of(own_memory)), Error);
}

TEST_CASE("context: memory of no context is used by default streams of the current one, if that has its device") {
  const Bench bench;
  if (!cuda::facts_of(0).virtual_memory) return;
  const cuda::SharedMemory memory = cuda::SharedMemory::create(0, 4096);
  CHECK(cuda::context_of(nullptr, memory.address()) == bench.context());
  const OtherContext own;
  const cuda::Current current{own.context};
  CHECK(cuda::context_of(nullptr, memory.address()) == own.context);
  CHECK(cuda::context_of(cuda::per_thread_stream, memory.address()) == own.context);
}

TEST_CASE("context: memory of no context, where none is current, is used in the primary one, which then stays") {
  if (!cuda::facts_of(0).virtual_memory) return;
  const OtherContext own;
  cuda::SharedMemory memory;
  {
    const cuda::Current current{own.context};
    memory = cuda::SharedMemory::create(0, 4096);
  }
  std::thread{[&] {
    CHECK(current_context() == nullptr);
    CHECK(cuda::device_of(cuda::context_of(nullptr, memory.address())) == 0);
  }}.join();
}

TEST_CASE("context: each has default streams of its own, and each thread has one") {
  const Bench bench;
  const OtherContext own;
  const auto ids = [](Context context) {
    const cuda::Current current{context};
    return std::array{cuda::id_of(nullptr), cuda::id_of(cuda::per_thread_stream)};
  };
  const auto here = ids(bench.context()), there = ids(own.context);
  std::array<std::uint64_t, 2> elsewhere{};
  std::thread{[&] { elsewhere = ids(bench.context()); }}.join();
  CHECK(ids(bench.context()) == here);
  CHECK(cuda::id_of(cuda::legacy_stream) == here[0]);
  CHECK(here[0] == elsewhere[0]);
  CHECK(std::set{here[0], here[1], there[0], there[1], elsewhere[1]}.size() == 5);
}

TEST_CASE("context: a default stream of a thread runs beside those of others, and in order with the legacy one") {
  const Bench bench;
  const OwnEvent event = bench.event();
  bench.on(cuda::per_thread_stream, [&](Commands& to) { to.wait(bench.at(0), 1); });
  std::thread{[&] {
    const cuda::Current current{bench.context()};
    bench.on(cuda::per_thread_stream, [&](Commands& to) { to.write(bench.at(1), 1); });
    CHECK(soon([&] { return bench.word(1) == 1; }));
  }}.join();
  bench.on(nullptr, [&](Commands& to) { to.write(bench.at(2), 1); });
  CHECK(not_soon([&] { return bench.word(2) == 1; }));
  bench.word(0) = 1;
  CHECK(soon([&] { return bench.word(2) == 1; }));
  driver().cuStreamSynchronize(nullptr);
}

TEST_CASE("context: what is left of one that has ended does not touch that which comes after it") {
  const Bench bench;
  DeviceMemory memory;
  OwnEvent event;
  OwnStream stream;
  cuda::KnownContext known;
  CHECK(!known.exists());
  {
    const OtherContext own;
    known = cuda::KnownContext{own.context};
    CHECK(known.exists());
    CHECK(known != cuda::KnownContext{bench.context()});
    const cuda::Current current{own.context};
    memory = DeviceMemory{4096};
    event = OwnEvent{own.context};
    stream = OwnStream{own.context};
  }
  CHECK(!known.exists());
  const OtherContext own;  // which may have its pointer, and the same addresses
  const cuda::Current current{own.context};
  const DeviceMemory other{4096};
  CHECK(!known.exists());
  CHECK(known != cuda::KnownContext{own.context});
  memory = DeviceMemory{};
  event = OwnEvent{};
  stream = OwnStream{};
  CHECK(cuda::facts_of(other.address()).kind == cuda::PointerFacts::Kind::device);
}

TEST_CASE("context: a kernel may be put into a stream of another context") {
  const Bench bench;
  const OtherContext own;
  const OwnStream stream{own.context};
  SpendArguments argument{0};
  void* parameters[] = {&argument};
  CHECK(driver().cuLaunchKernel.result(bench.spend, 1, 1, 1, 1, 1, 1, 0, stream.get(), parameters, nullptr) ==
        Result::success);
  CHECK(bench.drains(stream));
}

TEST_CASE("context: a copy may be put into a stream of another context") {
  const Bench bench;
  const DeviceMemory memory{4096};
  const OtherContext own;
  const OwnStream stream{own.context};
  CHECK(driver().cuMemcpyAsync.result(memory.address(), bench.at(0), 8, stream.get()) == Result::success);
  CHECK(bench.drains(stream));
}

TEST_CASE("context: an event is recorded in streams of its own context only, and waited for in all") {
  const Bench bench;
  const OtherContext own;
  const OwnStream stream{own.context};
  const OwnEvent event = bench.event();
  CHECK(driver().cuEventRecord.result(event.get(), stream.get()) == Result::invalid_handle);
  const OwnStream first = bench.stream();
  bench.on(first, [&](Commands& to) { to.record(event.get()); });
  CHECK(driver().cuStreamWaitEvent.result(stream.get(), event.get(), 0) == Result::success);
  CHECK(bench.drains(stream));
}

TEST_CASE("context: kernels run in one of the program's own") {
  const Bench bench;
  const OtherContext own;
  const cuda::Current current{own.context};
  const OwnStream stream{own.context};
  const DeviceMemory memory{4096};
  const HostMemory host{4096};
  cuda::KernelImage::load(bench.add);
  Commands to{own.context, stream.get()};
  to.fill(memory.address(), 0, 4096);
  to.launch(bench.add, {3, 64}, AddArguments{memory.address(), memory.address(), 1000, 7});
  to.copy(host.address(), memory.address(), 4096);
  bench.synchronize(stream);
  const auto* const found = reinterpret_cast<const std::uint32_t*>(host.data());
  CHECK(found[0] == 7);
  CHECK(found[999] == 7);
  CHECK(found[1000] == 0);
}

TEST_CASE("child: a kernel fails" * doctest::skip()) {
  const Bench bench;
  const OwnStream stream = bench.stream();
  bench.on(stream, [&](Commands& to) { to.launch(bench.add, {1, 32}, AddArguments{4096, 4096, 32, 1}); });
  CHECK(driver().cuStreamSynchronize.result(stream.get()) == Result::illegal_address);
  Address address = 0;
  CHECK(driver().cuMemAlloc.result(&address, 4096) == Result::illegal_address);
  CHECK(driver().cuStreamQuery.result(stream.get()) == Result::illegal_address);
  CHECK(program_calls().cuCtxSynchronize() == Result::illegal_address);
  CHECK_THROWS_AS((void)bench.event(), Error);
}

TEST_CASE("context: after a kernel has failed, every call says so") {
  Child child{"child: a kernel fails"};
  CHECK(child.end() == 0);
}

}  // namespace tutti::testing
