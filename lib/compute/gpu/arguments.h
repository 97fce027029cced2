#pragma once

#include <cstddef>
#include <cstdint>

// What a kernel is told; also compiled for GPUs.

namespace tutti::compute::gpu {

inline constexpr int most_inputs = 16;
inline constexpr int most_outputs = 16;
inline constexpr unsigned threads_per_block = 512;
inline constexpr unsigned blocks_per_multiprocessor = 2;  // have room at the same time, at least: 64 registers a thread

/// The other ranks that a kernel meets: it uses their memory, or they use its rank's. It tells them so, and waits for
/// them, by words of links (transport/cuda_ipc/stream_links.h) as streams do. See meeting.inl.
struct Meeting {
  struct Peer {
    std::uint64_t own;       // address of this rank's word about the peer's messages; that about credit lies behind it
    std::uint64_t at_peer;   // the same about this rank, at the peer
    std::uint64_t sent;      // the number of the message to a peer that uses this rank's memory; 0: it does not
    std::uint64_t received;  // that of the message from a peer whose memory this kernel uses; 0: it does not
  };
  static constexpr std::uint64_t to_credit = 64;  // bytes from one word to the other
  Peer peers[most_inputs - 1];
  std::uint64_t tickets;  // address of two counters of 32 bits in memory of this GPU, which are 0 between kernels
  std::uint64_t slots;    // of each link
  std::int32_t count;     // of peers; 0: the kernel meets nobody
};

/// The only parameter of every kernel: element i of all outputs becomes the left fold of element i of the inputs.
///
/// An address is a multiple of the size of its elements (of half of it, if they are complex), and of 16 for speed. An
/// output may be an input, else it is apart from it.
struct FoldArguments {
  std::uint64_t inputs[most_inputs];
  std::uint64_t outputs[most_outputs];
  std::int32_t input_count;   // at least 1
  std::int32_t output_count;  // at least 1
  std::uint64_t count;        // elements
  double factor;              // of contributions: see compute::Average, and premul_sum
  double divisor;             // of the sum: see compute::Average
  Meeting meeting;
};

}  // namespace tutti::compute::gpu
