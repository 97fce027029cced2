// A rank whose call on device memory fails, for device_faults_test.py and stream_faults_test.py: says how, lets its
// stream run empty, and exits with 0. TUTTI_INJECT, FAKE_CUDA_FAIL, FAKE_CUDA_SIGNAL or the first argument says where
// it fails.
//
//     device_faults [WHAT [ALGORITHM [wait | start | pending | graph [shrink | - [ELEMENTS]]]]]
//
// With `wait` calls wait, with `start` they are waited for one by one, with `pending` all are started before the first
// wait, in two streams, and with `graph` they are captured and launched, all but the first. With `shrink` the ranks
// that are left go on.

#include <dlfcn.h>
#include <tutti/gpu.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/memory.h"
#include "tests/gpu/graphs.h"
#include "tests/gpu/host_memory.h"
#include "tests/gpu/on_device.h"

namespace cuda = tutti::cuda;

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int turns = 3;
constexpr int culprit = 1;

double seconds_since(Clock::time_point begun) { return std::chrono::duration<double>(Clock::now() - begun).count(); }

class Rank {
 public:
  Rank(tutti::Communicator comm, std::string algorithm, std::string form, std::size_t count)
      : comm_(std::move(comm)), algorithm_(std::move(algorithm)), form_(std::move(form)), count_(count) {}

  int number() const { return number_; }
  /// When the second call began, in which the culprit does what it does, or the first one, if none came after it.
  Clock::time_point begun() const { return begun_; }
  /// Until the streams have run empty, or failed.
  void drain() const {
    std::atomic_ref{*reinterpret_cast<std::uint64_t*>(gate_.data())} = 1;
    for (const cuda::OwnStream& stream : streams_) (void)cuda::driver().cuStreamSynchronize.result(stream.get());
  }

  /// All calls of a test. In the second turn the culprit does `what`.
  void make_calls(const std::string& what) {
    number_ = comm_->rank();
    size_ = comm_->size();
    const std::string act = number_ == culprit ? what : "";
    for (int turn = 0; turn < turns; ++turn) {
      if (turn < 2) begun_ = Clock::now();
      if (turn == 1 && !act.empty()) do_something_else(act);
      if (!comm_) return;
      const cuda::Stream stream = streams_[form_ == "pending" && turn == 1 ? 1 : 0].get();
      const auto data = vector(count_, own(number_, turn), stream);
      const tutti::CallOptions options{.algorithm = algorithm_, .stream = stream};
      Call& call = calls_.emplace_back(turn, vectors_.back().get());
      if (form_ == "wait" || (form_ == "graph" && turn == 0))
        comm_->all_reduce(data, tutti::sum, options);
      else if (form_ == "graph")
        launch(stream, [&] { (void)comm_->async().all_reduce(data, tutti::sum, options); });
      else
        call.work = comm_->async().all_reduce(data, tutti::sum, options);
      if (form_ == "start") call.work->wait();
      if (form_ != "pending") comm_->barrier();  // which tells what a launch has failed with
      call.is_waited_for = form_ != "pending";
    }
    if (act == "destroy") return comm_.reset();
    for (Call& call : calls_) {
      if (call.work) call.work->wait();
      call.is_waited_for = true;
    }
    compare();
  }
  /// What calls that did not fail have left, also where others did.
  void compare() const {
    const cuda::Stream stream = streams_[0].get();
    for (const Call& call : calls_) {
      if (!call.is_waited_for) continue;
      int sum = 0;
      for (int rank = 0; rank < size_; ++rank) sum += own(rank, call.turn);
      std::vector<std::int32_t> found(count_);
      cuda::Commands{primary_.get(), stream}.copy(cuda::address_of(found.data()), call.data->address(),
                                                  count_ * sizeof(std::int32_t));
      cuda::driver().cuStreamSynchronize(stream);
      if (std::ranges::count(found, sum * 0x01010101) != static_cast<std::ptrdiff_t>(count_))
        std::printf("rank %d: wrong result in turn %d\n", number_, call.turn);
    }
  }
  /// The same, once a call has failed.
  void compare_the_rest() {
    for (Call& call : calls_) {
      if (call.is_waited_for || !call.work) continue;
      try {
        call.work->wait();
        call.is_waited_for = true;
      } catch (const tutti::Error&) {
      }
    }
    try {
      compare();
    } catch (const tutti::Error&) {  // its GPU has failed
    }
  }

  /// Goes on with the ranks that are left.
  void shrink() {
    calls_.clear();
    vectors_.clear();
    comm_ = comm_->shrink();
    make_calls("");
  }

 private:
  struct Call {
    Call(int of, const cuda::DeviceMemory* memory) : turn(of), data(memory) {}
    int turn;
    const cuda::DeviceMemory* data;
    std::optional<tutti::Work> work{};  // of a call that goes on
    bool is_waited_for = false;         // and has not failed
  };

  static std::uint8_t own(int rank, int turn) { return static_cast<std::uint8_t>(rank + turn + 1); }

  /// `size` elements whose bytes are all alike.
  tutti::gpu::Span<std::int32_t> vector(std::size_t size, std::uint8_t byte, cuda::Stream stream) {
    const cuda::DeviceMemory& memory = *vectors_.emplace_back(new cuda::DeviceMemory{size * sizeof(std::int32_t)});
    cuda::Commands{primary_.get(), stream}.fill(memory.address(), byte, memory.size());
    return tutti::gpu::span(reinterpret_cast<std::int32_t*>(memory.address()), size);
  }

  template <class Body>
  void launch(cuda::Stream stream, const Body& body) {
    graphs_.emplace_back(stream, cuda::CaptureMode::global, body).launch(stream);
    cuda::driver().cuStreamSynchronize(stream);
  }

  void do_something_else(const std::string& what) {
    std::vector<std::int32_t> on_host(count_, 1);
    const cuda::Stream stream = streams_[0].get();
    const tutti::CallOptions options{.algorithm = algorithm_, .stream = stream};
    if (what == "abort") comm_->abort("rank 1 does not like it");
    if (what == "leave") comm_.reset();
    if (what == "count") comm_->all_reduce(vector(count_ + 1, 1, stream), tutti::sum, options);
    if (what == "host") comm_->all_reduce(on_host, tutti::sum, {.algorithm = algorithm_});
    if (what == "none") comm_->recv(on_host, 0, {.timeout = 15s});  // which nobody sends
    if (what != "stuck") return;
    cuda::Commands gate{primary_.get(), stream};
    gate.wait(gate_.address(), 1);
    gate.flush();
  }

  const cuda::PrimaryContext primary_{tutti::testing::own_device()};
  const cuda::Current current_{primary_.get()};
  const std::array<cuda::OwnStream, 2> streams_{cuda::OwnStream{primary_.get()}, cuda::OwnStream{primary_.get()}};
  const tutti::testing::HostMemory gate_{sizeof(std::uint64_t)};  // keeps a stream that is stuck
  std::vector<std::unique_ptr<cuda::DeviceMemory>> vectors_;
  std::vector<Call> calls_;
  std::vector<tutti::testing::CapturedGraph> graphs_;
  std::optional<tutti::Communicator> comm_;
  const std::string algorithm_, form_;
  const std::size_t count_;  // of elements
  int number_ = -1, size_ = 0;
  Clock::time_point begun_ = Clock::now();
};

void print_commands_run(int rank) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto run = driver ? reinterpret_cast<std::uint64_t (*)()>(::dlsym(driver, "fake_cuda_commands_run")) : nullptr;
  if (run) std::printf("rank %d: %d commands\n", rank, static_cast<int>(run()));
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) { return std::string{i < argc ? argv[i] : otherwise}; };
  const std::string what = argument(1, "");
  const bool shrinks = argument(4, "") == "shrink";
  Rank rank{tutti::connect(), argument(2, ""), argument(3, "wait"),
            static_cast<std::size_t>(std::stoul(argument(5, "3000")))};
  bool failed = false;
  try {
    rank.make_calls(what);
    std::printf("rank %d: no error\n", rank.number());
    print_commands_run(rank.number());
  } catch (const tutti::Error& error) {
    failed = true;
    const double until_error = seconds_since(rank.begun());
    const auto caught = Clock::now();
    rank.drain();
    std::printf("rank %d: error of rank %d, code %d, after %.3f s, stream empty after %.3f s: %s\n", rank.number(),
                error.rank(), static_cast<int>(error.code()), until_error, seconds_since(caught), error.what());
    rank.compare_the_rest();
  }
  std::fflush(stdout);
  if (!failed || !shrinks) return 0;
  try {
    rank.shrink();
    std::printf("rank %d: goes on\n", rank.number());
  } catch (const tutti::Error& error) {
    std::printf("rank %d: cannot go on: %s\n", rank.number(), error.what());
  }
}
