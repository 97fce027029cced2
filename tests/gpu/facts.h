#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/kernel_image.h"
#include "lib/base/gpu/memory.h"
#include "tests/gpu/host_memory.h"
#include "tests/gpu/program_calls.h"
#include "tests/gpu/small_kernels.h"

// What the questions of gpu_facts share. See facts.cc.

namespace tutti::gpu_facts {

using namespace tutti::cuda;
using namespace tutti::testing;
using Word = std::atomic<std::uint64_t>;

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
inline void pause_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

inline bool wait_until(const std::function<bool()>& done, double seconds) {
  for (const double end = now() + seconds; now() < end; std::this_thread::yield())
    if (done()) return true;
  return done();
}

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// What most questions need: a context, current, the kernels, loaded, and a page of words.
struct Bench {
  PrimaryContext primary{0};
  Current current{primary.get()};
  KernelImage image{small_kernels()};
  Kernel add = image.kernel("small_add"), spend = image.kernel("small_spend"), store = image.kernel("small_store");
  HostMemory page{4096};
  DeviceMemory device{std::size_t{8} << 20};

  Bench() {
    std::memset(page.data(), 0, page.size());
    for (Kernel one : {add, spend, store}) KernelImage::load(one);
  }
  Word& word(int index) { return *reinterpret_cast<Word*>(page.data() + 64 * index); }
  Address at(int index) const { return page.address() + static_cast<Address>(64 * index); }
  OwnStream stream() const { return OwnStream{primary.get()}; }
  bool idle(const OwnStream& one) const { return driver().cuStreamQuery.result(one.get()) == Result::success; }
  bool drains(const OwnStream& one, double seconds) const {
    return wait_until([&] { return idle(one); }, seconds);
  }

  template <class Action>
  void on(const OwnStream& one, Action action) {
    Commands commands{primary.get(), one.get()};
    action(commands);
    commands.flush();
  }
  /// Makes the stream wait for word `index` to become 1.
  void block(const OwnStream& one, int index) {
    on(one, [&](Commands& to) { to.wait(at(index), 1); });
    pause_ms(20);
  }
};

// Questions about streams that wait (facts_waiting.cc).
void behind_free();
void behind_synchronize();
void behind_stream_synchronize();
void behind_first_use();
void fill_with_writes();
void fill_with_kernels();
void fill_with_copies();
void fill_with_records();
void release_default();
void release_8();
void release_32();
/// Whether a call returns while a stream of this process waits. `prepare` gives the call.
void pending_call(const char* name, const std::function<std::function<void()>(Bench&)>& prepare);
std::vector<std::pair<const char*, std::function<std::function<void()>(Bench&)>>> pending_calls();

}  // namespace tutti::gpu_facts
