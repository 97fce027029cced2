// A pipeline over streams, words and events, right or with one fault: shows that the fake driver finds such faults.
//
//   gpu_mutants right      exits with 0
//   gpu_mutants FAULT      exits with another status, or is ended by a signal, under one schedule of the fake at least;
//                          built with ThreadSanitizer, which knows the order that CUDA guarantees, under any
//
// Stream a fills slots in turn, stream b empties them; words count the slots that arrived and those that were freed.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/kernel_image.h"
#include "lib/base/gpu/memory.h"
#include "tests/gpu/host_memory.h"
#include "tests/gpu/small_kernels.h"

namespace {

using namespace tutti::cuda;
using namespace tutti::testing;

std::string_view fault;
bool is(std::string_view name) { return fault == name; }

constexpr std::uint64_t messages = 12, slots = 2, count = 4096, bytes = 4 * count;

[[noreturn]] void found(const char* what) {
  std::printf("%s\n", what);
  std::fflush(stdout);
  std::_Exit(3);
}

void synchronize(const OwnStream& stream) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{5};
  while (driver().cuStreamQuery.result(stream.get()) == Result::not_ready) {
    if (std::chrono::steady_clock::now() > end) found("a stream hangs");
    std::this_thread::yield();
  }
}

class Pipeline {
 public:
  Pipeline() {
    std::memset(words_.data(), 0, words_.size());
    KernelImage::load(add_);
  }

  void run() {
    enqueue_input();
    for (std::uint64_t m = 1; m <= messages; ++m) {
      produce(m);
      consume(m);
    }
    enqueue_output();
    if (!is("host reads early")) synchronize(a_);
    check();
    drain();
  }

 private:
  static constexpr int arrived = 0, freed = 1, gate = 2;

  std::atomic<std::uint64_t>& word(int index) {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(words_.data() + 64 * index);
  }
  Address at(int index) const { return words_.address() + static_cast<Address>(64 * index); }
  Address slot(std::uint64_t m) const { return slots_.address() + m % slots * bytes; }

  /// The input goes up in a stream of its own.
  void enqueue_input() {
    auto* const numbers = reinterpret_cast<std::uint32_t*>(host_.data());
    for (std::uint64_t i = 0; i < count; ++i) numbers[i] = static_cast<std::uint32_t>(i);
    {
      Commands to{primary_.get(), c_.get()};
      to.copy(input_.address(), host_.address(), bytes);
      to.record(up_.get());
    }
    if (is("buffer reused")) std::memset(host_.data(), 0, bytes);
    Commands to{primary_.get(), a_.get()};
    if (!is("fork missing")) to.wait(up_.get());
  }

  void produce(std::uint64_t m) {
    Commands to{primary_.get(), a_.get()};
    if (m > slots && !is("credit not awaited")) to.wait(at(freed), m - slots);
    if (is("signal first")) to.write(at(arrived), m);
    to.launch(add_, {4, 64}, AddArguments{slot(m), input_.address(), count, static_cast<std::uint32_t>(m)});
    if (!is("signal first")) to.write(at(arrived), m);
    to.flush();
  }

  void consume(std::uint64_t m) {
    Commands to{primary_.get(), b_.get()};
    if (!is("wait missing")) to.wait(at(arrived), m);
    const std::uint64_t from = is("wrong slot") ? m + 1 : m;
    to.launch(
        add_, {4, 64},
        AddArguments{output_.address() + (m - 1) * bytes, slot(from), count + (is("too long") && m == messages), 0});
    if (!is("credit not returned")) to.write(at(freed), m);
    to.record(down_.get());
    to.flush();
  }

  void enqueue_output() {
    Commands to{primary_.get(), a_.get()};
    if (!is("join missing")) to.wait(down_.get());
    to.copy(result_.address(), output_.address(), messages * bytes);
  }

  void check() {
    const auto* const numbers = reinterpret_cast<const std::uint32_t*>(result_.data());
    for (std::uint64_t m = 1; m <= messages; ++m)
      for (std::uint64_t i = 0; i < count; ++i)
        if (numbers[(m - 1) * count + i] != i + m) found("wrong bytes");
  }

  /// A wait that nobody fulfils is ended by the host, as after a failure.
  void drain() {
    {
      Commands to{primary_.get(), b_.get()};
      to.wait(at(gate), 5);
      to.flush();
    }
    if (is("freed while a stream waits")) output_ = DeviceMemory{};
    word(gate) = is("unsigned poison") ? std::numeric_limits<std::uint64_t>::max()
                                       : static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    for (const OwnStream* one : {&a_, &b_, &c_}) synchronize(*one);
    output_ = DeviceMemory{};  // the fake looks for what was written behind the end
    if (is("host touches device memory")) std::printf("%u\n", *reinterpret_cast<unsigned*>(input_.address()));
  }

  PrimaryContext primary_{0};
  Current current_{primary_.get()};
  KernelImage image_{small_kernels()};
  Kernel add_ = image_.kernel("small_add");
  HostMemory words_{4096}, host_{bytes}, result_{messages * bytes};
  DeviceMemory input_{bytes}, slots_{slots * bytes}, output_{messages * bytes};
  OwnStream a_{primary_.get()}, b_{primary_.get()}, c_{primary_.get()};
  OwnEvent up_{primary_.get()}, down_{primary_.get()};
};

/// A process opens the memory of another, which frees it then.
void free_while_open() {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  const pid_t parent = ::getpid();
  if (::fork() == 0) {
    IpcMemoryHandle handle{};
    if (::read(ends[0], &handle, sizeof handle) != sizeof handle) std::_Exit(1);
    const PrimaryContext primary{0};
    const Current current{primary.get()};
    const OpenedMemory opened{handle};
    while (::getppid() == parent) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    std::_Exit(0);
  }
  const PrimaryContext primary{0};
  const Current current{primary.get()};
  const DeviceMemory memory{bytes};
  const IpcMemoryHandle handle = legacy_handle(memory.address());
  if (::write(ends[1], &handle, sizeof handle) != sizeof handle) std::abort();
  // Tries until the other process has opened it.
  for (int i = 0; i < 3000; ++i) {
    DeviceMemory again{bytes};
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    if (i == 2000) (void)driver().cuMemFree.result(memory.address());
  }
}

}  // namespace

int main(int arguments, char** argument) {
  fault = arguments > 1 ? argument[1] : "right";
  if (is("freed while open elsewhere")) {
    free_while_open();
    return 0;
  }
  if (!give_small_kernels()) return 77;  // a real driver need not find anything
  Pipeline{}.run();
  return 0;
}
