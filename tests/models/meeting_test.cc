// How kernels of ranks meet (lib/compute/gpu/meeting.inl), under a checker of memory orders: relacy runs the template
// that GPUs run, with its own atomics and its own threads, one for each block. It reports a value that was read without
// an order to its write, in all executions with at most two preemptions, or in random ones.
//
// Each rank fills its input, meets the others, and in between reads all inputs and writes its part of all outputs, as
// in two shots; in one shot it writes less. Then it reads its output. The next call follows at once, on the same
// memory.
//
//   meeting_test         checks what is right, and that each mutant is found

#include <cstdio>
#include <fstream>
#include <relacy/relacy.hpp>

#define TUTTI_GPU_FUNCTION
#include "lib/compute/gpu/meeting.inl"
#include "tests/support/gpu_kernels/host_block.h"

namespace {

using tutti::compute::gpu::enter;
using tutti::compute::gpu::leave;
using tutti::compute::gpu::Meeting;

constexpr int most_ranks = 3;
constexpr int most_blocks = 2;

enum class Mutant { none, relaxed_load, relaxed_store, relaxed_ticket, no_credit };
Mutant mutant = Mutant::none;

rl::memory_order order_or_relaxed(rl::memory_order order, Mutant relaxed) {
  return mutant == relaxed ? rl::mo_relaxed : order;
}

/// The words of all ranks: addresses are multiples of what lies between a word and that of its credit.
struct Memory {
  static constexpr std::uint64_t distance = Meeting::to_credit;
  static constexpr int words_of_rank = 2 * most_ranks + 1;
  rl::atomic<std::uint64_t> words[most_ranks * words_of_rank];
  rl::atomic<std::uint32_t> tickets[2 * most_ranks];

  static std::uint64_t arrived(int owner, int other) {
    return static_cast<std::uint64_t>(owner * words_of_rank + 2 * other) * distance;
  }
  static bool is_credit(std::uint64_t address) {
    return address / distance % static_cast<std::uint64_t>(words_of_rank) % 2 == 1;
  }
};

struct Words {
  Memory* memory;
  std::uint64_t load(std::uint64_t address) const {
    if (mutant == Mutant::no_credit && Memory::is_credit(address)) return ~std::uint64_t{0} >> 1;
    return memory->words[address / Memory::distance].load(order_or_relaxed(rl::mo_acquire, Mutant::relaxed_load), $);
  }
  void store(std::uint64_t address, std::uint64_t value) const {
    memory->words[address / Memory::distance].store(value, order_or_relaxed(rl::mo_release, Mutant::relaxed_store), $);
  }
  void pause() const { rl::yield(1, $); }
  std::uint32_t ticket(std::uint64_t counter) const {
    return memory->tickets[counter / 4].fetch_add(1, order_or_relaxed(rl::mo_acq_rel, Mutant::relaxed_ticket), $);
  }
  void reset(std::uint64_t counter) const { memory->tickets[counter / 4].store(0, rl::mo_relaxed, $); }
};

template <int ranks, int blocks, int calls>
struct Calls : rl::test_suite<Calls<ranks, blocks, calls>, ranks * blocks> {
  Memory memory;
  rl::var<int> input[ranks];
  rl::var<int> output[ranks][ranks][blocks];  // the part that each rank and block makes, on each rank
  rl::atomic<unsigned> ended[ranks];          // blocks of a rank, in all its kernels
  void before() {
    for (auto& word : memory.words) word.store(0, rl::mo_relaxed, $);
    for (auto& ticket : memory.tickets) ticket.store(0, rl::mo_relaxed, $);
    for (auto& count : ended) count.store(0, rl::mo_relaxed, $);
  }

  /// Kernels of a stream follow each other: all blocks of one end before the next begins.
  void end_kernel(int rank, int kernel) {
    if (blocks == 1) return;
    ended[rank].fetch_add(1, rl::mo_acq_rel, $);
    while (ended[rank].load(rl::mo_acquire, $) < static_cast<unsigned>(kernel * blocks)) rl::yield(1, $);
  }

  Meeting meeting_of(int me, int call) const {
    Meeting meeting{};
    meeting.tickets = static_cast<std::uint64_t>(8 * me);
    meeting.slots = 2;
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != me)
        meeting.peers[meeting.count++] = {Memory::arrived(me, peer), Memory::arrived(peer, me),
                                          static_cast<std::uint64_t>(call), static_cast<std::uint64_t>(call)};
    return meeting;
  }

  void thread(unsigned index) {
    const int me = static_cast<int>(index) / blocks, block = static_cast<int>(index) % blocks;
    for (int call = 1, kernels = 0; call <= calls; ++call) {
      if (block == 0) input[me]($) = 10 * (me + 1) + call;  // by an earlier kernel
      end_kernel(me, ++kernels);
      const Meeting meeting = meeting_of(me, call);
      enter(meeting, tutti::testing::HostBlock{blocks}, Words{&memory});
      int sum = 0, expected = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += static_cast<int>(input[rank]($));
      for (int rank = 0; rank < ranks; ++rank) expected += 10 * (rank + 1) + call;
      RL_ASSERT(sum == expected);
      for (int rank = 0; rank < ranks; ++rank) output[rank][me][block]($) = sum;
      leave(meeting, tutti::testing::HostBlock{blocks}, Words{&memory});
      end_kernel(me, ++kernels);
      for (int part = 0; block == 0 && part < ranks; ++part)  // by a later one
        for (int of = 0; of < blocks; ++of) RL_ASSERT(static_cast<int>(output[me][part][of]($)) == expected);
      end_kernel(me, ++kernels);
    }
  }
};

template <class Test>
bool has_error(const char* what, const rl::test_params& given) {
  rl::test_params params = given;
  std::ofstream nowhere{"/dev/null"};
  params.progress_stream = &nowhere;
  if (mutant != Mutant::none) params.output_stream = &nowhere;
  const bool is_right = rl::simulate<Test>(params);
  std::printf("%-58s %s after %llu executions\n", what, rl::test_result_str(params.test_result),
              static_cast<unsigned long long>(params.stop_iteration));
  const bool is_wrong_value =
      params.test_result == rl::test_result_data_race || params.test_result == rl::test_result_user_assert_failed;
  return mutant == Mutant::none ? !is_right : is_wrong_value;
}

}  // namespace

int main() {
  rl::test_params all;
  all.search_type = rl::fair_context_bound_scheduler_type;
  all.context_bound = 2;
  all.execution_depth_limit = 2000;
  rl::test_params random;
  random.search_type = rl::random_scheduler_type;
  random.iteration_count = 10'000;
  random.execution_depth_limit = 20'000;

  int wrong = 0;
  wrong += has_error<Calls<2, 1, 3>>("2 ranks, 3 calls, all executions with 2 preemptions", all);
  wrong += has_error<Calls<3, 1, 3>>("3 ranks, 3 calls, at random", random);
  wrong += has_error<Calls<2, 2, 2>>("2 ranks of 2 blocks, 2 calls, at random", random);
  mutant = Mutant::relaxed_load;
  wrong += has_error<Calls<2, 1, 3>>("mutant: relaxed loads", random) ? 0 : 1;
  mutant = Mutant::relaxed_store;
  wrong += has_error<Calls<2, 1, 3>>("mutant: relaxed stores", random) ? 0 : 1;
  mutant = Mutant::no_credit;
  wrong += has_error<Calls<2, 1, 3>>("mutant: no wait for credit", random) ? 0 : 1;
  mutant = Mutant::relaxed_ticket;
  wrong += has_error<Calls<2, 2, 2>>("mutant: relaxed tickets of blocks", random) ? 0 : 1;
  return wrong == 0 ? 0 : 1;
}
