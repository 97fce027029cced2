// Kernels that wait for each other (lib/compute/gpu/meeting.inl), by themselves: ranks are streams of one process,
// which have one GPU together, where kernels of few blocks run at the same time. On the fake driver, and on a real one.
//
//   gpu_meetings
//
// Ends with 77 and the reason where no GPU can be used, else with a line that counts.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/context.h"
#include "lib/base/gpu/memory.h"
#include "lib/compute/gpu/arguments.h"
#include "lib/compute/gpu/image.h"
#include "lib/compute/gpu/table.h"
#include "lib/gpu/device_kernels.h"
#include "tests/gpu/host_memory.h"

using namespace tutti;
using compute::gpu::FoldArguments;
using compute::gpu::Meeting;

namespace {

constexpr unsigned ranks = 4;
constexpr unsigned most_blocks = 8;
constexpr std::size_t most_bytes = std::size_t{1} << 20;
constexpr std::size_t sizes[] = {1, 1000, 65536, most_bytes};
constexpr std::size_t words_of_link = 2 * Meeting::to_credit;
constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

int passed = 0, failed = 0;

void count(bool good, const std::string& what) {
  ++(good ? passed : failed);
  if (!good && failed <= 20) std::printf("FAILED: %s\n", what.c_str());
}

class Ranks {
 public:
  Ranks() {
    kernels_.load();
    std::memset(words_.data(), 0, words_size);
    std::memset(results_.data(), 0, ranks * most_bytes);
    for (unsigned rank = 0; rank < ranks; ++rank) streams_.emplace_back(primary_.get());
    // What a driver loads when it is first used would wait for the kernels that wait.
    for (unsigned rank = 0; rank < ranks; ++rank) {
      cuda::Commands commands{primary_.get(), streams_[rank].get()};
      for (const std::size_t bytes : sizes) {
        commands.fill(input(rank), 0, bytes);
        commands.copy(results_.address() + rank * most_bytes, input(rank), bytes);
      }
    }
    wait();
    cuda::Commands commands{primary_.get(), streams_[0].get()};
    commands.fill(memory_.address(), 0, memory_.size());
    wait();
  }

  /// Each rank sets its input to a number of its own, all are summed, and the sum is copied to the host.
  void check(unsigned blocks, std::size_t bytes, int calls) {
    for (int call = 0; call < calls; ++call) {
      ++number_;
      for (unsigned rank = 0; rank < ranks; ++rank) {
        cuda::Commands commands{primary_.get(), streams_[rank].get()};
        commands.fill(input(rank), byte_of(rank), bytes);
        sum(commands, rank, blocks, bytes);
        commands.copy(results_.address() + rank * most_bytes, output(rank), bytes);
      }
      // Some calls are on their way at the same time.
      if (call % 4 != 3 && call + 1 < calls) continue;
      wait();
      unsigned char expected = 0;
      for (unsigned rank = 0; rank < ranks; ++rank) expected = static_cast<unsigned char>(expected + byte_of(rank));
      for (unsigned rank = 0; rank < ranks; ++rank) {
        const auto* const result = reinterpret_cast<const unsigned char*>(results_.data() + rank * most_bytes);
        count(std::all_of(result, result + bytes, [&](unsigned char x) { return x == expected; }),
              "call " + std::to_string(number_) + ", rank " + std::to_string(rank) + ", blocks " +
                  std::to_string(blocks) + ", bytes " + std::to_string(bytes));
      }
    }
  }

  /// Microseconds of a call, of many in a row.
  double time(unsigned blocks, std::size_t bytes, int calls) {
    const cuda::OwnEvent begin{primary_.get(), cuda::OwnEvent::Kind::timed};
    const cuda::OwnEvent end{primary_.get(), cuda::OwnEvent::Kind::timed};
    for (int call = 0; call < calls; ++call) {
      ++number_;
      for (unsigned rank = 0; rank < ranks; ++rank) {
        cuda::Commands commands{primary_.get(), streams_[rank].get()};
        if (rank == 0 && call == 0) commands.record(begin.get());
        sum(commands, rank, blocks, bytes);
        if (rank == 0 && call + 1 == calls) commands.record(end.get());
      }
    }
    wait();
    return cuda::milliseconds_between(begin.get(), end.get()).value_or(0) * 1000 / calls;
  }

  /// All but one rank call, and the host ends their waits.
  void check_end() {
    ++number_;
    for (unsigned rank = 1; rank < ranks; ++rank) {
      cuda::Commands commands{primary_.get(), streams_[rank].get()};
      sum(commands, rank, 4, 4096);
    }
    for (unsigned rank = 1; rank < ranks; ++rank)
      count(cuda::driver().cuStreamQuery.result(streams_[rank].get()) == cuda::Result::not_ready, "a kernel waits");
    for (bool waits = true; waits;) {
      // Again and again, since the others still write smaller numbers.
      for (std::size_t at = 0; at < words_size; at += Meeting::to_credit)
        std::atomic_ref{*reinterpret_cast<std::uint64_t*>(words_.data() + at)} = largest;
      waits = false;
      for (const cuda::OwnStream& stream : streams_)
        waits = waits || cuda::driver().cuStreamQuery.result(stream.get()) == cuda::Result::not_ready;
    }
    wait();
    count(true, "the host ends all waits");
  }

 private:
  static constexpr std::size_t words_size = ranks * ranks * words_of_link;

  unsigned char byte_of(unsigned rank) const { return static_cast<unsigned char>(17 * rank + 5 * number_); }
  cuda::Address input(unsigned rank) const { return memory_.address() + 2 * rank * most_bytes; }
  cuda::Address output(unsigned rank) const { return input(rank) + most_bytes; }
  cuda::Address word(unsigned owner, unsigned other) const {
    return words_.address() + (owner * ranks + other) * words_of_link;
  }

  void sum(cuda::Commands& commands, unsigned rank, unsigned blocks, std::size_t bytes) {
    FoldArguments arguments{};
    for (unsigned i = 0; i < ranks; ++i) arguments.inputs[i] = input(i);
    arguments.outputs[0] = output(rank);
    arguments.input_count = ranks;
    arguments.output_count = 1;
    arguments.count = bytes;
    Meeting& meeting = arguments.meeting;
    for (unsigned peer = 0; peer < ranks; ++peer)
      if (peer != rank) meeting.peers[meeting.count++] = {word(rank, peer), word(peer, rank), number_, number_};
    meeting.tickets = memory_.address() + 2 * ranks * most_bytes + 256 * rank;
    meeting.slots = 2;
    const compute::gpu::Kernel& kernel = *choose(DataType::u8, OpKind::sum, compute::gpu::Step::whole).kernel;
    commands.launch(kernels_[kernel], {blocks, compute::gpu::threads_per_block}, arguments);
  }

  void wait() {
    for (const cuda::OwnStream& stream : streams_) cuda::driver().cuStreamSynchronize(stream.get());
  }

  const cuda::PrimaryContext primary_{0};
  const cuda::Current current_{primary_.get()};
  const detail::DeviceKernels& kernels_ = detail::DeviceKernels::get();
  std::vector<cuda::OwnStream> streams_;
  const testing::HostMemory words_{words_size};
  const testing::HostMemory results_{ranks * most_bytes};
  const cuda::DeviceMemory memory_{2 * ranks * most_bytes + 256 * ranks};
  std::uint64_t number_ = 0;
};

int run() {
  const std::string_view no_image = compute::gpu::why_no_image();
  if (!no_image.empty() || !cuda::available()) {
    std::printf("skipped: %s\n", no_image.empty() ? cuda::why_not().c_str() : std::string{no_image}.c_str());
    return 77;
  }
  Ranks all;
  for (const unsigned blocks : {1U, 2U, most_blocks})
    for (const std::size_t bytes : sizes) all.check(blocks, bytes, 20);
  for (const unsigned blocks : {1U, most_blocks})
    std::printf("%u ranks, %u blocks each, 4 KiB: %.1f us a call\n", ranks, blocks, all.time(blocks, 4096, 200));
  all.check_end();
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return run();
  } catch (const std::exception& error) {
    std::printf("%s\n%d passed, %d failed\n", error.what(), passed, failed + 1);
    return 1;
  }
}
