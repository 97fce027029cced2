#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "lib/base/descriptor.h"
#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/kernel_image.h"
#include "lib/base/gpu/memory.h"
#include "tests/gpu/host_memory.h"
#include "tests/gpu/program_calls.h"
#include "tests/gpu/small_kernels.h"

// What the tests of the driver's rules share. Each rule holds for the fake and for a real driver.

namespace tutti::testing {

using cuda::Address;
using cuda::Commands;
using cuda::Context;
using cuda::DeviceMemory;
using cuda::driver;
using cuda::OwnEvent;
using cuda::OwnStream;

/// Looks until `done`, for 10 s at most.
inline bool soon(const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (!done() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return done();
}

/// True if `done` stays false for a while. Cannot fail because the machine is busy, but might miss a fault then.
inline bool not_soon(const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds{30};
  while (!done() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return !done();
}

/// A device with a context, current, kernels and words in host memory, which are 0.
class Bench {
 public:
  Bench() {
    std::memset(words_.data(), 0, words_.size());
    for (cuda::Kernel one : {add, spend, store}) cuda::KernelImage::load(one);
  }

  Context context() const { return primary_.get(); }
  std::atomic<std::uint64_t>& word(int index) const {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(words_.data() + 64 * index);
  }
  Address at(int index) const { return words_.address() + static_cast<Address>(64 * index); }
  OwnStream stream() const { return OwnStream{context()}; }
  OwnEvent event() const { return OwnEvent{context()}; }

  template <class Action>
  void on(cuda::Stream stream, Action action) const {
    Commands commands{context(), stream};
    action(commands);
    commands.flush();
  }
  template <class Action>
  void on(const OwnStream& stream, Action action) const {
    on(stream.get(), action);
  }
  /// Makes the stream wait for word `index` to become 1.
  void block(const OwnStream& stream, int index) const {
    on(stream, [&](Commands& to) { to.wait(at(index), 1); });
  }
  static bool idle(cuda::Stream stream) { return driver().cuStreamQuery.result(stream) == Result::success; }
  static bool idle(const OwnStream& stream) { return idle(stream.get()); }
  static bool drains(const OwnStream& stream) {
    return soon([&] { return idle(stream); });
  }
  static void synchronize(const OwnStream& stream) { driver().cuStreamSynchronize(stream.get()); }

 private:
  cuda::PrimaryContext primary_{0};
  cuda::Current current_{primary_.get()};
  cuda::KernelImage image_{small_kernels()};
  HostMemory words_{4096};

 public:
  const cuda::Kernel add = image_.kernel("small_add"), spend = image_.kernel("small_spend"),
                     store = image_.kernel("small_store");
};

/// Another process, which runs one of this program's test cases, marked doctest::skip(). What they tell each other
/// goes through a socket.
class Child {
 public:
  explicit Child(const char* test_case);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  /// 0: all its checks held. Negative: ended by this signal.
  int end();
  int socket() const { return socket_.get(); }

 private:
  int process_ = -1;
  Descriptor socket_;
};

/// In the child: the socket to the parent.
int parent_socket();

void send_bytes(int socket, const void* bytes, std::size_t size, int descriptor = -1);
/// Returns the descriptor that came along, or -1. Throws after 20 s.
int receive_bytes(int socket, void* bytes, std::size_t size);

template <class T>
void tell(int socket, const T& value, int descriptor = -1) {
  send_bytes(socket, &value, sizeof value, descriptor);
}
template <class T>
T hear(int socket, int* descriptor = nullptr) {
  T value;
  const int found = receive_bytes(socket, &value, sizeof value);
  if (descriptor != nullptr) *descriptor = found;
  return value;
}

}  // namespace tutti::testing
