// What a GPU and its driver do where CUDA's documents do not say: run on a machine with a GPU, it prints a line per
// fact. docs/gpu-measurements.md has the answers. Each question has a process of its own, since some are answered by
// a call that never returns.
//
//   gpu_facts              all questions
//   gpu_facts QUESTION     one of them
//
// The last line says how many processes ended as they should.

#include "tests/gpu/facts.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tutti/error.h"

namespace tutti::gpu_facts {
namespace {

// ---- Questions

void devices() {
  for (Device device = 0; device < driver().devices; ++device) {
    const DeviceFacts facts = facts_of(device);
    std::printf("  device %d: %s, cc %d, %d multiprocessors, %s, memops %d, vmm %d; driver of CUDA %d\n", device,
                facts.name.c_str(), facts.capability, facts.multiprocessors, facts.bus.c_str(), facts.memory_operations,
                facts.virtual_memory, driver().version);
  }
}

void adds(Bench& bench, Context context, const char* where) {
  const Current current{context};
  const OwnStream stream{context};
  const DeviceMemory memory{4096};
  HostMemory host{4096};
  Commands commands{context, stream.get()};
  commands.fill(memory.address(), 0, 4096);
  commands.launch(bench.add, {4, 64}, AddArguments{memory.address(), memory.address(), 1024, 7});
  commands.copy(host.address(), memory.address(), 4096);
  driver().cuStreamSynchronize(stream.get());
  const auto* const found = reinterpret_cast<const std::uint32_t*>(host.data());
  std::printf("  launch in %s: %s\n", where,
              std::all_of(found, found + 1024, [](auto x) { return x == 7; }) ? "right" : "WRONG");
}

void images() {
  const double begin = now();
  Bench bench;
  std::printf("  context and image by cuLibraryLoadData (%s): %.1f ms\n",
              std::getenv("SMALL_KERNELS") ? "binary" : "PTX", 1e3 * (now() - begin));
  adds(bench, bench.primary.get(), "the primary context");
  Context own = nullptr;
  (void)program_calls().cuCtxCreate(&own, 0, 0);
  adds(bench, own, "a context of our own, same CUkernel");
  Context popped = nullptr;
  driver().cuCtxPopCurrent(&popped);
  const OwnStream other{own};
  AddArguments nothing{bench.device.address(), bench.device.address(), 0, 0};
  void* parameters[] = {&nothing};
  std::printf(
      "  kernel launched into a stream of another context than the current one: %d; memops there: %d; copy there: %d\n",
      static_cast<int>(
          driver().cuLaunchKernel.result(bench.add, 1, 1, 1, 1, 1, 1, 0, other.get(), parameters, nullptr)),
      static_cast<int>(program_calls().cuStreamWriteValue64(other.get(), bench.at(0), 1, 0)),
      static_cast<int>(driver().cuMemcpyAsync.result(bench.device.address(), bench.at(0), 8, other.get())));
  driver().cuCtxDestroy(own);
}

void registers(const char* kind, void* data, std::size_t size) {
  Bench bench;
  const double begin = now();
  const RegisteredMemory memory{data, size};
  const double registered = now();
  const OwnStream stream = bench.stream();
  std::memset(data, 5, 4096);
  bench.on(stream, [&](Commands& to) {
    to.copy(bench.device.address(), memory.address(), 4096);
    to.copy(memory.address() + 8192, bench.device.address(), 4096);
    to.wait(memory.address() + 16384, 1);
    to.write(memory.address() + 16384 + 64, 9);
  });
  pause_ms(50);
  auto* const words = static_cast<char*>(data) + 16384;
  const bool waited = !bench.idle(stream);
  reinterpret_cast<Word*>(words)->store(1);
  const bool woken = bench.drains(stream, 2);
  std::printf(
      "  %s of %zu MiB: registered in %.2f ms, address %s; copied both ways %d, waited %d, woken by the CPU %d, word "
      "written %d\n",
      kind, size >> 20, 1e3 * (registered - begin), memory.address() == address_of(data) ? "the same" : "another",
      std::memcmp(data, static_cast<char*>(data) + 8192, 4096) == 0, waited, woken,
      reinterpret_cast<Word*>(words + 64)->load() == 9);
}

void registration() {
  constexpr std::size_t size = 64 << 20;
  const int file = ::memfd_create("facts", MFD_CLOEXEC);
  if (::ftruncate(file, size) != 0) std::abort();
  registers("memfd", ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), size);
  registers("anonymous shared memory", ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
            size);
  registers("anonymous private memory",
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), size);
}

/// The median of the times in us from `begin` to the word's value.
template <class Begin>
double latency(Bench& bench, int word, Begin begin) {
  std::vector<double> times;
  for (std::uint64_t i = 1; i <= 300; ++i) {
    const double start = begin(i);
    while (bench.word(word).load(std::memory_order_acquire) < i) continue;
    times.push_back(1e6 * (now() - start));
    pause_ms(i % 50 == 0);
  }
  return median({times.begin() + 50, times.end()});
}

void latencies() {
  Bench bench;
  const OwnStream stream = bench.stream();
  std::printf("  WriteValue enqueued -> seen by the CPU: %.2f us\n", latency(bench, 0, [&](std::uint64_t i) {
                const double start = now();
                bench.on(stream, [&](Commands& to) { to.write(bench.at(0), i); });
                return start;
              }));
  std::printf("  kernel launched -> its store seen by the CPU: %.2f us\n", latency(bench, 1, [&](std::uint64_t i) {
                const double start = now();
                bench.on(stream, [&](Commands& to) { to.launch(bench.store, {1, 1}, StoreArguments{bench.at(1), i}); });
                return start;
              }));
  const auto gated = [&](const char* what, int gate, auto between) {
    std::printf("  CPU store -> waiting stream goes on%s -> WriteValue seen by the CPU: %.2f us\n", what,
                latency(bench, gate + 1, [&](std::uint64_t i) {
                  bench.on(stream, [&](Commands& to) {
                    to.wait(bench.at(gate), i);
                    between(to);
                    to.write(bench.at(gate + 1), i);
                  });
                  for (const double end = now() + 30e-6; now() < end;) continue;
                  const double start = now();
                  bench.word(gate).store(i, std::memory_order_release);
                  return start;
                }));
  };
  const Address device = bench.device.address();
  gated("", 2, [](Commands&) {});
  gated(", copies 4 KiB up", 4, [&](Commands& to) { to.copy(device, bench.page.address(), 4096); });
  gated(", copies 4 KiB down", 6, [&](Commands& to) { to.copy(bench.at(16), device, 2048); });
  gated(", copies 4 KiB on the device", 8, [&](Commands& to) { to.copy(device, device + 65536, 4096); });
  gated(", runs a kernel", 10, [&](Commands& to) {
    to.launch(bench.add, {1, 256}, AddArguments{device, device, 1024, 1});
  });
}

void speed_of(Bench& bench, const char* kind, std::byte* data, Address host, std::size_t size) {
  std::memset(data, 1, 2 * size);
  const DeviceMemory device{2 * size};
  const OwnStream down = bench.stream(), up = bench.stream();
  const int times =
      static_cast<int>(std::max<std::size_t>(8, std::min<std::size_t>(400, (std::size_t{1} << 30) / size)));
  const auto measure = [&](bool with_up, bool with_down) {
    double best = 1e9;
    for (int repeat = 0; repeat < 3; ++repeat) {
      const double begin = now();
      for (int i = 0; i < times; ++i) {
        if (with_up) driver().cuMemcpyAsync(device.address(), host, size, up.get());
        if (with_down) driver().cuMemcpyAsync(host + size, device.address() + size, size, down.get());
      }
      driver().cuStreamSynchronize(up.get());
      driver().cuStreamSynchronize(down.get());
      best = std::min(best, now() - begin);
    }
    return static_cast<double>(size) * times * (with_up + with_down) / best / 1e9;
  };
  const double alone_up = measure(true, false), alone_down = measure(false, true), both = measure(true, true);
  std::printf("  %s, %8zu KiB: up %.1f GB/s, down %.1f GB/s, both at once %.1f GB/s together\n", kind, size >> 10,
              alone_up, alone_down, both);
}

void speeds() {
  Bench bench;
  for (const std::size_t size :
       {std::size_t{64} << 10, std::size_t{256} << 10, std::size_t{1} << 20, std::size_t{4} << 20,
        std::size_t{16} << 20, std::size_t{64} << 20, std::size_t{256} << 20}) {
    const HostMemory host{2 * size};
    speed_of(bench, "pinned memory", host.data(), host.address(), size);
  }
  for (const std::size_t size : {std::size_t{1} << 20, std::size_t{64} << 20}) {
    void* const shared = ::mmap(nullptr, 2 * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    std::memset(shared, 1, 2 * size);
    const RegisteredMemory memory{shared, 2 * size};
    speed_of(bench, "registered shared memory", static_cast<std::byte*>(shared), memory.address(), size);
  }
}

void costs() {
  Bench bench;
  const OwnStream stream = bench.stream();
  const OwnEvent event{bench.primary.get()};
  const Address device = bench.device.address();
  const auto cost = [&](const char* what, const auto& call) {
    for (int i = 0; i < 100; ++i) call();
    driver().cuStreamSynchronize(stream.get());
    const double begin = now();
    for (int i = 0; i < 500; ++i) call();
    std::printf("  %s: %.3f us\n", what, 1e6 * (now() - begin) / 500);
    driver().cuStreamSynchronize(stream.get());
  };
  static char own[64];
  Commands to{bench.primary.get(), stream.get()};
  cost("pointer facts (9 attributes) of device memory", [&] { (void)facts_of(device + 100); });
  cost("pointer facts of the program's own memory", [&] { (void)facts_of(address_of(own)); });
  cost("is_device_memory() of the program's own memory", [&] { (void)is_device_memory(own); });
  cost("cuEventRecord", [&] { to.record(event.get()); });
  cost("cuEventQuery", [&] { (void)event.done(); });
  cost("cuStreamQuery", [&] { (void)bench.idle(stream); });
  cost("cuStreamWaitEvent", [&] { to.wait(event.get()); });
  cost("cuStreamGetCaptureInfo", [&] { (void)capture_of(stream.get()); });
  cost("push and pop of a context", [&] { const Current current{bench.primary.get()}; });
  cost("one WriteValue", [&] { to.write(bench.at(1), 1), to.flush(); });
  cost("a batch of 8 WriteValues", [&] {
    for (int i = 0; i < 8; ++i) to.write(bench.at(1 + i), 1);
    to.flush();
  });
  cost("a batch of 32 WriteValues", [&] {
    for (int i = 0; i < 32; ++i) to.write(bench.at(1 + i), 1);
    to.flush();
  });
  cost("launch", [&] { to.launch(bench.spend, {1, 1}, SpendArguments{0}); });
  cost("copy of 8 bytes on the device", [&] { to.copy(device, device + 64, 8); });
  cost("copy of 4 KiB down", [&] { to.copy(bench.page.address(), device, 2048); });
  cost("copy of 4 KiB of the program's own memory up", [&] { to.copy(device, address_of(own), 64); });
}

void handles() {
  Bench bench;
  OpenedMemory opened;
  Address found = 0;
  IpcMemoryHandle first = legacy_handle(bench.device.address());
  std::printf("  a handle opened by the process that exported it: %d\n",
              static_cast<int>(driver().cuIpcOpenMemHandle.result(&found, first, ipc_lazy_peer_access)));
  std::printf("  the handle of an address inside is that of the base: %d\n",
              legacy_handle(bench.device.address() + 4096) == first);
  const Address before = bench.device.address();
  bench.device = DeviceMemory{};
  bench.device = DeviceMemory{std::size_t{8} << 20};
  std::printf("  freed and allocated again: address the same %d, handle the same %d\n",
              bench.device.address() == before, legacy_handle(bench.device.address()) == first);
  const SharedMemory shared = SharedMemory::create(0, 100);
  std::printf(
      "  legacy handle of memory made by cuMemCreate: %d; its facts: legacy %d, descriptor %d, context %s, size %zu\n",
      static_cast<int>(driver().cuIpcGetMemHandle.result(&first, shared.address())),
      facts_of(shared.address()).legacy_ipc, facts_of(shared.address()).descriptor,
      facts_of(shared.address()).context == nullptr ? "none" : "some", facts_of(shared.address()).size);
}

// ---- Each in a process of its own

int failed = 0, ran = 0;

void ask(const std::string& name, const std::function<void()>& question, unsigned seconds, const char* only) {
  if (only != nullptr && name.rfind(only, 0) != 0) return;
  std::printf("[%s]\n", name.c_str());
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(seconds);
    int status = 0;
    try {
      give_small_kernels();
      question();
    } catch (const std::exception& error) {
      std::printf("  FAILED: %s\n", error.what());
      status = 1;
    }
    std::fflush(stdout);
    std::_Exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ++ran;
  if (status == 0) return;
  ++failed;
  std::printf("  ended by %s %d\n", WIFSIGNALED(status) ? "signal" : "status",
              WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

}  // namespace
}  // namespace tutti::gpu_facts

int main(int count, char** arguments) {
  using namespace tutti::gpu_facts;
  const char* const only = count > 1 ? arguments[1] : nullptr;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::pair<const char*, void (*)()> questions[] = {
      {"devices", devices},
      {"images", images},
      {"registration", registration},
      {"latencies", latencies},
      {"costs", costs},
      {"behind-free", behind_free},
      {"behind-synchronize", behind_synchronize},
      {"behind-stream-synchronize", behind_stream_synchronize},
      {"behind-first-use", behind_first_use},
      {"fill-writes", fill_with_writes},
      {"fill-kernels", fill_with_kernels},
      {"fill-copies", fill_with_copies},
      {"fill-records", fill_with_records},
      {"release-default", release_default},
      {"release-8", release_8},
      {"release-32", release_32},
      {"handles", handles},
      {"speeds", speeds},
  };
  for (const auto& [name, question] : questions) ask(name, question, 40, only);
  const std::size_t calls = pending_calls().size();
  for (std::size_t i = 0; i < calls; ++i)
    ask(
        "pending-" + std::to_string(i),
        [i] {
          const auto all = pending_calls();
          pending_call(all[i].first, all[i].second);
        },
        10, only);
  std::printf("%d of %d questions answered\n", ran - failed, ran);
  return failed == 0 ? 0 : 1;
}