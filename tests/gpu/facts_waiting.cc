// Questions about calls and commands that pass, or do not, while a stream waits for a word.

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/gpu/facts.h"
#include "tutti/error.h"

namespace tutti::gpu_facts {

/// What passes while another thread sits in `blocking`, behind a stream that waits.
void behind(const char* name, const std::function<void(Bench&)>& blocking) {
  Bench bench;
  const OwnStream waiting = bench.stream(), free = bench.stream();
  const OwnEvent event{bench.primary.get()}, recorded{bench.primary.get()};
  bench.on(free, [&](Commands& to) { to.record(recorded.get()); });
  bench.drains(free, 1);
  bench.block(waiting, 0);
  std::atomic<bool> returned{false};
  std::thread a{[&] {
    const Current current{bench.primary.get()};
    blocking(bench);
    returned = true;
  }};
  pause_ms(300);
  std::printf("  thread A in %s behind a wait: %s;", name, returned ? "RETURNED" : "hangs");
  const std::pair<const char*, std::function<void()>> tries[] = {
      {"pointer facts", [&] { facts_of(bench.device.address()); }},
      {"event query", [&] { (void)recorded.done(); }},
      {"stream query", [&] { (void)bench.idle(free); }},
      {"memop", [&] { bench.on(free, [&](Commands& to) { to.write(bench.at(2), 1); }); }},
      {"record", [&] { bench.on(free, [&](Commands& to) { to.record(event.get()); }); }},
      {"copy",
       [&] {
         bench.on(free, [&](Commands& to) { to.copy(bench.device.address(), bench.device.address() + 4096, 8); });
       }},
      {"launch", [&] { bench.on(free, [&](Commands& to) {
                         to.launch(bench.spend, {1, 1}, SpendArguments{0});
                       }); }}};
  std::atomic<int> passed{0};
  std::thread b{[&] {
    for (const auto& one : tries) {
      one.second();
      ++passed;
    }
  }};
  wait_until([&] { return passed == 7; }, 2);
  const int before = passed;
  std::printf(" thread B: %s%s%s", before == 7 ? "all pass" : "stuck at ", before == 7 ? "" : tries[before].first,
              before == 7 && bench.drains(free, 1) ? ", and run" : "");
  bench.word(0).store(1);
  const bool freed = wait_until([&] { return passed == 7 && returned; }, 3);
  std::printf("; after a store by the CPU: %s\n", freed ? "all go on" : "STILL STUCK");
  std::fflush(stdout);
  if (!freed) std::_Exit(3);
  a.join();
  b.join();
}

void behind_free() {
  static DeviceMemory memory;
  behind("cuMemFree", [](Bench&) {
    memory = DeviceMemory{std::size_t{4} << 20};
    memory = DeviceMemory{};
  });
}
void behind_synchronize() {
  behind("cuCtxSynchronize", [](Bench&) { (void)program_calls().cuCtxSynchronize(); });
}
void behind_stream_synchronize() {
  behind("cuStreamSynchronize of the legacy stream", [](Bench&) { driver().cuStreamSynchronize(legacy_stream); });
}
void behind_first_use() {
  behind("the first use of a kernel", [](Bench&) {
    auto* const again = new KernelImage{small_kernels()};
    KernelImage::load(again->kernel("small_add"));
  });
}

void pending_call(const char* name, const std::function<std::function<void()>(Bench&)>& prepare) {
  Bench bench;
  const std::function<void()> call = prepare(bench);
  const OwnStream waiting = bench.stream();
  bench.block(waiting, 0);
  std::atomic<bool> returned{false};
  std::thread caller{[&] {
    const Current current{bench.primary.get()};
    call();
    returned = true;
  }};
  const double begin = now();
  const bool passed = wait_until([&] { return returned.load(); }, 1);
  const double took = now() - begin;
  bench.word(0).store(1);
  const bool ended = wait_until([&] { return returned.load(); }, 3);
  std::printf("  while a wait pends, %s %s\n", name,
              passed  ? ("returns after " + std::to_string(static_cast<int>(1e6 * took)) + " us").c_str()
              : ended ? "WAITS for it"
                      : "HANGS for good");
  std::fflush(stdout);
  if (!ended) std::_Exit(3);
  caller.join();
}

std::vector<std::pair<const char*, std::function<std::function<void()>(Bench&)>>> pending_calls() {
  constexpr std::size_t size = 4 << 20;
  static HostMemory host, other_host;
  static DeviceMemory device;
  static SharedMemory shared;
  static OwnStream stream;
  static OwnEvent event;
  static RegisteredMemory registered;
  const auto map = [] { return ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); };
  using Call = std::function<void()>;
  return {
      {"cuMemAlloc", [](Bench&) -> Call { return [] { device = DeviceMemory{size}; }; }},
      {"cuMemFree",
       [](Bench&) -> Call {
         device = DeviceMemory{size};
         return [] { device = DeviceMemory{}; };
       }},
      {"cuMemHostAlloc", [](Bench&) -> Call { return [] { host = HostMemory{size}; }; }},
      {"cuMemFreeHost",
       [](Bench&) -> Call {
         host = HostMemory{size};
         return [] { host = HostMemory{}; };
       }},
      {"cuMemHostRegister", [=](Bench&) -> Call { return [=] {
                                                    registered = RegisteredMemory{map(), size};
                                                  }; }},
      {"cuMemHostUnregister",
       [=](Bench&) -> Call {
         registered = RegisteredMemory{map(), size};
         return [] { registered = RegisteredMemory{}; };
       }},
      {"cuMemCreate, map and set access",
       [](Bench&) -> Call { return [] { shared = SharedMemory::create(0, size); }; }},
      {"cuMemUnmap and release",
       [](Bench&) -> Call {
         shared = SharedMemory::create(0, size);
         return [] { shared = SharedMemory{}; };
       }},
      {"cuStreamCreate", [](Bench& b) -> Call { return [&b] { stream = b.stream(); }; }},
      {"cuStreamDestroy of another stream",
       [](Bench& b) -> Call {
         stream = b.stream();
         return [] { stream = OwnStream{}; };
       }},
      {"cuEventCreate", [](Bench& b) -> Call { return [&b] { event = OwnEvent{b.primary.get()}; }; }},
      {"cuEventDestroy",
       [](Bench& b) -> Call {
         event = OwnEvent{b.primary.get()};
         return [] { event = OwnEvent{}; };
       }},
      {"cuLibraryLoadData", [](Bench&) -> Call { return [] { new KernelImage{small_kernels()}; }; }},
      {"the first use of a kernel",
       [](Bench&) -> Call {
         auto* const again = new KernelImage{small_kernels()};
         return [again] { KernelImage::load(again->kernel("small_add")); };
       }},
      {"cuIpcGetMemHandle", [](Bench& b) -> Call { return [&b] { (void)legacy_handle(b.device.address()); }; }},
      {"retaining the primary context again", [](Bench&) -> Call { return [] { PrimaryContext{0}; }; }},
      {"cuCtxCreate",
       [](Bench&) -> Call {
         return [] {
           Context made;
           (void)program_calls().cuCtxCreate(&made, 0, 0);
           driver().cuCtxPopCurrent(&made);
         };
       }},
      {"copy of the program's own memory to the device, other stream",
       [](Bench& b) -> Call {
         stream = b.stream();
         return [&b] {
           static char own[1 << 20];
           b.on(stream, [&](Commands& to) { to.copy(b.device.address(), address_of(own), sizeof own); });
         };
       }},
  };
}

/// How many commands fit behind a wait, and whether others are stuck then.
void fills(const char* what, const std::function<void(Bench&, Commands&)>& one) {
  Bench bench;
  const OwnStream waiting = bench.stream(), free = bench.stream();
  const OwnEvent event{bench.primary.get()};
  bench.block(waiting, 0);
  std::atomic<int> enqueued{0};
  std::atomic<bool> stop{false};
  std::thread filler{[&] {
    bench.on(waiting, [&](Commands& to) {
      for (; !stop && enqueued < 200000; ++enqueued) one(bench, to);
    });
  }};
  int seen = -1;
  while (seen != enqueued && enqueued < 200000) {
    seen = enqueued;
    pause_ms(300);
  }
  const bool full = enqueued < 200000;
  std::printf("  %s behind a wait: enqueueing %s after %d;", what, full ? "BLOCKS" : "does not block", enqueued.load());
  std::atomic<int> passed{0};
  std::thread other{[&] {
    (void)event.done();
    ++passed;
    bench.on(free, [&](Commands& to) { to.write(bench.at(2), 1); });
    ++passed;
    bench.on(free, [&](Commands& to) { to.launch(bench.spend, {1, 1}, SpendArguments{0}); });
    ++passed;
  }};
  wait_until([&] { return passed == 3; }, 1);
  std::printf(" on another stream then: event query %d, WriteValue %d, launch %d;", passed > 0, passed > 1, passed > 2);
  stop = true;
  bench.word(0).store(1);
  const bool ended = wait_until([&] { return passed == 3 && bench.idle(waiting); }, 20);
  std::printf(" after a store by the CPU: %s\n", ended ? "all runs" : "STUCK");
  std::fflush(stdout);
  if (!ended) std::_Exit(3);
  filler.join();
  other.join();
}
void fill_with_writes() {
  fills("flushed WriteValues", [](Bench& bench, Commands& to) {
    to.write(bench.at(3), 1);
    to.flush();
  });
}
void fill_with_kernels() {
  fills("kernels", [](Bench& bench, Commands& to) { to.launch(bench.spend, {1, 1}, SpendArguments{0}); });
}
void fill_with_copies() {
  fills("copies of 8 bytes",
        [](Bench& bench, Commands& to) { to.copy(bench.device.address(), bench.device.address() + 64, 8); });
}
void fill_with_records() {
  static OwnEvent* event = nullptr;
  fills("event records", [](Bench& bench, Commands& to) {
    if (event == nullptr) event = new OwnEvent{bench.primary.get()};
    to.record(event->get());
  });
}

void releases(const char* connections) {
  if (connections != nullptr) ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", connections, 1);
  constexpr int streams = 48;
  const auto at_index = [](int i) { return static_cast<std::size_t>(i); };
  Bench bench;
  std::vector<OwnStream> all;
  for (int i = 0; i < streams; ++i) all.push_back(bench.stream());
  for (int i = 0; i < streams; ++i) bench.on(all[at_index(i)], [&](Commands& to) { to.wait(bench.at(i), 1); });
  pause_ms(50);
  const double begin = now();
  for (int i = streams; i-- > 0;) bench.word(i).store(1);  // the last one first
  int released = 0;
  for (const OwnStream& one : all) released += bench.drains(one, 0.5);
  std::printf("  %d of %d waiting streams released by stores of the CPU, connections %s: %.2f ms\n", released, streams,
              connections == nullptr ? "default" : connections, 1e3 * (now() - begin));
  // Which streams go on while one waits?
  std::memset(bench.page.data(), 0, bench.page.size());
  bench.on(all[0], [&](Commands& to) { to.wait(bench.at(0), 1); });
  pause_ms(20);
  std::string pattern;
  for (int i = 1; i < streams; ++i) bench.on(all[at_index(i)], [&](Commands& to) { to.write(bench.at(i), 1); });
  pause_ms(100);
  for (int i = 1; i < streams; ++i) pattern += bench.word(i).load() == 1 ? '+' : '-';
  std::printf("    while the first of them waits, WriteValue on the others runs (+) or not (-): %s\n", pattern.c_str());
  for (int i = 1; i < streams; ++i)
    bench.on(all[at_index(i)], [&](Commands& to) { to.launch(bench.store, {1, 1}, StoreArguments{bench.at(i), 2}); });
  pause_ms(100);
  pattern.clear();
  for (int i = 1; i < streams; ++i) pattern += bench.word(i).load() == 2 ? '+' : '-';
  std::printf("    and kernels: %s\n", pattern.c_str());
  std::memset(bench.page.data() + 64, 0, bench.page.size() - 64);
  OwnStream high{bench.primary.get(), -5};
  bench.on(high, [&](Commands& to) { to.write(bench.at(50), 1); });
  std::printf("    and a stream of the highest priority: %c\n",
              wait_until([&] { return bench.word(50).load() == 1; }, 0.1) ? '+' : '-');
  bench.word(0).store(1);
  for (const OwnStream& one : all) bench.drains(one, 0.5);
}
void release_default() { releases(nullptr); }
void release_8() { releases("8"); }
void release_32() { releases("32"); }

}  // namespace tutti::gpu_facts
