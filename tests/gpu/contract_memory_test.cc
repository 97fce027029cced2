// Rules of the driver: memory, and memory that processes share.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <numeric>
#include <vector>

#include "tests/gpu/contract.h"
#include "tests/gpu/expandable_segment.h"
#include "tutti/error.h"

namespace tutti::testing {
namespace {

using cuda::facts_of;
using Kind = cuda::PointerFacts::Kind;

/// What lies at `from`, by a copy to pinned memory.
std::vector<unsigned char> bytes_at(const Bench& bench, Address from, std::size_t size) {
  const HostMemory host{size};
  const OwnStream stream = bench.stream();
  bench.on(stream, [&](Commands& to) { to.copy(host.address(), from, size); });
  bench.synchronize(stream);
  const auto* const data = reinterpret_cast<const unsigned char*>(host.data());
  return {data, data + size};
}

void fill(const Bench& bench, Address to, unsigned char value, std::size_t size) {
  const OwnStream stream = bench.stream();
  bench.on(stream, [&](Commands& commands) { commands.fill(to, value, size); });
  bench.synchronize(stream);
}

}  // namespace

TEST_CASE("memory: of a device, aligned, and the host cannot touch it") {
  const Bench bench;
  const DeviceMemory one{100}, other{100};
  CHECK(one.address() % 256 == 0);
  CHECK(one.address() != other.address());
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  CHECK(::write(ends[1], reinterpret_cast<const void*>(one.address()), 64) < 0);
  CHECK(errno == EFAULT);
  ::close(ends[0]);
  ::close(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGBUS}) ::signal(signal, [](int) { std::_Exit(5); });
    std::_Exit(*reinterpret_cast<volatile unsigned char*>(one.address()) == 0 ? 1 : 2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 5);
}

TEST_CASE("memory: sizes of 0 and of more than there is are refused") {
  const Bench bench;
  Address address = 0;
  CHECK(driver().cuMemAlloc.result(&address, 0) == Result::invalid_value);
  CHECK(driver().cuMemAlloc.result(&address, std::size_t{1} << 50) == Result::out_of_memory);
}

TEST_CASE("memory: only what was allocated can be freed, and once") {
  const Bench bench;
  Address address = 0;
  driver().cuMemAlloc(&address, 8192);
  CHECK(driver().cuMemFree.result(address + 4096) == Result::invalid_value);
  CHECK(driver().cuMemFree.result(address) == Result::success);
  CHECK(driver().cuMemFree.result(address) == Result::invalid_value);
  CHECK(driver().cuMemFree.result(0) == Result::success);
}

TEST_CASE("memory: the program's own may be used again when the copy of it was enqueued") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  const DeviceMemory memory{1024};
  std::vector<unsigned char> own(1024, 1);
  bench.block(stream, 0);
  bench.on(stream, [&](Commands& to) { to.copy(memory.address(), cuda::address_of(own.data()), own.size()); });
  own.assign(1024, 2);
  bench.word(0) = 1;
  CHECK(bench.drains(stream));
  CHECK(bytes_at(bench, memory.address(), 1024) == std::vector<unsigned char>(1024, 1));
}

TEST_CASE("memory: the program's own has the bytes when the copy to it returns") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  const DeviceMemory memory{1 << 20};
  std::vector<unsigned char> own(1 << 20, 1);
  bench.on(stream, [&](Commands& to) {
    to.launch(bench.spend, {1, 1}, SpendArguments{5'000'000});
    to.fill(memory.address(), 9, own.size());
    to.copy(cuda::address_of(own.data()), memory.address(), own.size());
  });
  CHECK(own == std::vector<unsigned char>(1 << 20, 9));
}

TEST_CASE("memory: pinned memory is read when the copy runs") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  const DeviceMemory memory{1024};
  const HostMemory host{1024};
  std::memset(host.data(), 1, 1024);
  bench.block(stream, 0);
  bench.on(stream, [&](Commands& to) { to.copy(memory.address(), host.address(), 1024); });
  std::memset(host.data(), 2, 1024);
  bench.word(0).store(1, std::memory_order_release);
  CHECK(bench.drains(stream));
  CHECK(bytes_at(bench, memory.address(), 1024) == std::vector<unsigned char>(1024, 2));
}

TEST_CASE("memory: devices see pinned and registered memory at the host's address") {
  const Bench bench;
  const HostMemory host{10000};
  CHECK(host.address() == cuda::address_of(host.data()));
  void* const shared = ::mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  {
    const cuda::RegisteredMemory memory{shared, 65536};
    CHECK(memory.address() == cuda::address_of(shared));
    const OwnStream stream = bench.stream();
    bench.on(stream, [&](Commands& to) { to.launch(bench.store, {1, 1}, StoreArguments{memory.address() + 8, 77}); });
    CHECK(bench.drains(stream));
    CHECK(static_cast<std::uint64_t*>(shared)[1] == 77);
  }
  ::munmap(shared, 65536);
}

TEST_CASE("memory: a mapping of a file in memory can be registered, so that processes share words") {
  const Bench bench;
  const int file = ::memfd_create("words", MFD_CLOEXEC);
  REQUIRE(::ftruncate(file, 8192) == 0);
  void* const mine = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void* const theirs = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  {
    const cuda::RegisteredMemory memory{mine, 8192};
    const OwnStream stream = bench.stream();
    bench.on(stream, [&](Commands& to) {
      to.wait(memory.address(), 3);
      to.write(memory.address() + 64, 4);
    });
    CHECK(!bench.idle(stream));
    static_cast<std::atomic<std::uint64_t>*>(theirs)->store(3);
    CHECK(soon([&] { return static_cast<std::atomic<std::uint64_t>*>(theirs)[8].load() == 4; }));
    CHECK(bench.drains(stream));
  }
  ::munmap(mine, 8192);
  ::munmap(theirs, 8192);
  ::close(file);
}

TEST_CASE("memory: it is registered once, and only what is registered can be unregistered") {
  const Bench bench;
  void* const own = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  {
    const cuda::RegisteredMemory memory{own, 8192};
    CHECK(driver().cuMemHostRegister.result(own, 8192, cuda::host_portable) == Result::host_memory_already_registered);
  }
  CHECK(driver().cuMemHostUnregister.result(own) == Result::host_memory_not_registered);
  ::munmap(own, 8192);
}

TEST_CASE("memory: facts about an address") {
  const Bench bench;
  const DeviceMemory memory{10000};
  const cuda::PointerFacts device = facts_of(memory.address() + 5000);
  CHECK(device.kind == Kind::device);
  CHECK(device.base == memory.address());
  CHECK(device.size == 10000);
  CHECK(device.device == 0);
  CHECK(device.context == bench.context());
  CHECK(device.legacy_ipc);
  CHECK(!device.descriptor);

  const HostMemory host{4096};
  CHECK(facts_of(host.address() + 10).kind == Kind::host);
  void* const own = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(facts_of(cuda::address_of(own)).kind == Kind::unknown);
  {
    const cuda::RegisteredMemory registered{own, 8192};
    CHECK(facts_of(cuda::address_of(own)).kind == Kind::host);
  }
  CHECK(facts_of(cuda::address_of(own)).kind == Kind::unknown);
  CHECK(cuda::is_device_memory(reinterpret_cast<const void*>(memory.address() + 9999)));
  CHECK(!cuda::is_device_memory(own));
  CHECK(!cuda::is_device_memory(host.data()));
  ::munmap(own, 8192);
}

TEST_CASE("memory: a number tells two allocations at one address apart") {
  const Bench bench;
  DeviceMemory memory{4 << 20};
  const std::uint64_t before = facts_of(memory.address()).buffer;
  memory = DeviceMemory{};
  memory = DeviceMemory{4 << 20};
  CHECK(facts_of(memory.address()).buffer != before);
}

TEST_CASE("shared memory: created, mapped and used; its facts") {
  const Bench bench;
  const auto memory = cuda::SharedMemory::create(0, 100);
  CHECK(memory.size() >= 65536);
  CHECK(memory.size() % 65536 == 0);
  fill(bench, memory.address(), 6, memory.size());
  CHECK(bytes_at(bench, memory.address() + memory.size() - 8, 8) == std::vector<unsigned char>(8, 6));
  const cuda::PointerFacts facts = facts_of(memory.address() + 8);
  CHECK(facts.kind == Kind::device);
  CHECK(facts.descriptor);
  CHECK(!facts.legacy_ipc);
  CHECK(facts.size == memory.size());
  cuda::IpcMemoryHandle handle{};
  CHECK(driver().cuIpcGetMemHandle.result(&handle, memory.address()) == Result::invalid_value);
}

TEST_CASE("shared memory: sizes are multiples of the granularity") {
  const Bench bench;
  cuda::AllocationProperties wanted{};
  wanted.type = cuda::allocation_pinned;
  wanted.location = {cuda::location_device, 0};
  std::size_t granularity = 0;
  driver().cuMemGetAllocationGranularity(&granularity, &wanted, cuda::granularity_minimum);
  CHECK(granularity >= 65536);
  cuda::AllocationHandle handle = 0;
  CHECK(driver().cuMemCreate.result(&handle, granularity + 4096, &wanted, 0) == Result::invalid_value);
  CHECK(driver().cuMemCreate.result(&handle, granularity, &wanted, 0) == Result::success);
  driver().cuMemRelease(handle);
}

TEST_CASE("shared memory: pieces that are mapped side by side are allocations of their own, and used as one") {
  const Bench bench;
  const tutti::testing::ExpandableSegment segment{0, 3, cuda::HandleType::none};
  const Address border = segment.address() + segment.piece();
  fill(bench, segment.address(), 6, 3 * segment.piece());
  CHECK(bytes_at(bench, border - 8, 16) == std::vector<unsigned char>(16, 6));  // one copy of both
  const cuda::PointerFacts first = facts_of(border - 8), second = facts_of(border + 8);
  CHECK(first.base == segment.address());
  CHECK(second.base == border);
  CHECK(second.size == segment.piece());
  CHECK(first.buffer != second.buffer);
  CHECK(!second.legacy_ipc);
  CHECK(!second.descriptor);  // it was not made for that
  CHECK_THROWS_AS((void)cuda::export_descriptor_of(border), Error);
  CHECK(driver().cuMemUnmap.result(border - 4096, segment.piece()) == Result::invalid_value);
}

TEST_CASE("shared memory: a descriptor that is none of the driver's is refused") {
  const Bench bench;
  const Descriptor file{::memfd_create("no memory of a device", MFD_CLOEXEC)};
  CHECK_THROWS_AS((void)cuda::SharedMemory::import(0, file, 2 << 20), Error);
}

TEST_CASE("child: imports memory" * doctest::skip()) {
  const Bench bench;
  int file = -1;
  const auto size = hear<std::size_t>(parent_socket(), &file);
  auto memory = cuda::SharedMemory::import(0, Descriptor{file}, size);
  CHECK(bytes_at(bench, memory.address(), 64) == std::vector<unsigned char>(64, 21));
  fill(bench, memory.address() + 4096, 22, 64);
  tell(parent_socket(), 1);
  CHECK(hear<int>(parent_socket()) == 2);  // the other process has dropped it
  CHECK(bytes_at(bench, memory.address(), 64) == std::vector<unsigned char>(64, 21));
}

TEST_CASE("shared memory: another process has the same bytes, also when the first one has dropped them") {
  const Bench bench;
  Child child{"child: imports memory"};
  auto memory = cuda::SharedMemory::create(0, 100);
  fill(bench, memory.address(), 21, 64);
  tell(child.socket(), memory.size(), cuda::export_descriptor_of(memory.address()).get());
  CHECK(hear<int>(child.socket()) == 1);
  CHECK(bytes_at(bench, memory.address() + 4096, 64) == std::vector<unsigned char>(64, 22));
  memory = cuda::SharedMemory{};
  tell(child.socket(), 2);
  CHECK(child.end() == 0);
}

TEST_CASE("handle: it means the allocation, is refused in the process that made it") {
  const Bench bench;
  const DeviceMemory memory{8 << 20};
  const cuda::IpcMemoryHandle handle = cuda::legacy_handle(memory.address());
  CHECK(cuda::legacy_handle(memory.address() + 4096) == handle);
  Address address = 0;
  CHECK(driver().cuIpcOpenMemHandle.result(&address, handle, cuda::ipc_lazy_peer_access) == Result::invalid_context);
  CHECK(driver().cuIpcCloseMemHandle.result(memory.address()) == Result::invalid_value);
}

TEST_CASE("child: opens a handle" * doctest::skip()) {
  const Bench bench;
  const auto handle = hear<cuda::IpcMemoryHandle>(parent_socket());
  Address first = 0, second = 0;
  driver().cuIpcOpenMemHandle(&first, handle, cuda::ipc_lazy_peer_access);
  driver().cuIpcOpenMemHandle(&second, handle, cuda::ipc_lazy_peer_access);
  CHECK(first == second);
  CHECK(bytes_at(bench, first + 4096, 64) == std::vector<unsigned char>(64, 31));
  CHECK(facts_of(first + 4096).kind == Kind::device);
  // The word at the base wakes a stream of the other process.
  const OwnStream stream = bench.stream();
  bench.on(stream, [&](Commands& to) {
    to.fill(first + 4096, 32, 64);
    to.write(first, 1);
  });
  bench.synchronize(stream);
  CHECK(driver().cuIpcCloseMemHandle.result(first) == Result::success);
  CHECK(bytes_at(bench, first + 4096, 8) == std::vector<unsigned char>(8, 32));
  CHECK(driver().cuIpcCloseMemHandle.result(first) == Result::success);
  CHECK(driver().cuIpcCloseMemHandle.result(first) != Result::success);
}

TEST_CASE("handle: another process opens it, as many times as it closes it, and wakes streams by it") {
  const Bench bench;
  const DeviceMemory memory{8 << 20};
  fill(bench, memory.address(), 0, 8);
  fill(bench, memory.address() + 4096, 31, 64);
  const OwnStream stream = bench.stream();
  const HostMemory seen{64};
  bench.on(stream, [&](Commands& to) {
    to.wait(memory.address(), 1);
    to.copy(seen.address(), memory.address() + 4096, 64);
    to.write(bench.at(0), 1);
  });
  {
    Child child{"child: opens a handle"};
    tell(child.socket(), cuda::legacy_handle(memory.address()));
    CHECK(soon([&] { return bench.word(0).load(std::memory_order_acquire) == 1; }));
    CHECK(seen.data()[0] == std::byte{32});
    CHECK(child.end() == 0);
  }
}

TEST_CASE("child: opens a handle of memory that is gone" * doctest::skip()) {
  const Bench bench;
  const auto handle = hear<cuda::IpcMemoryHandle>(parent_socket());
  Address address = 0;
  CHECK(driver().cuIpcOpenMemHandle.result(&address, handle, cuda::ipc_lazy_peer_access) != Result::success);
}

TEST_CASE("handle: it cannot be opened when the memory is freed") {
  const Bench bench;
  DeviceMemory memory{8 << 20};
  const cuda::IpcMemoryHandle handle = cuda::legacy_handle(memory.address());
  memory = DeviceMemory{};
  Child child{"child: opens a handle of memory that is gone"};
  tell(child.socket(), handle);
  CHECK(child.end() == 0);
}

}  // namespace tutti::testing
