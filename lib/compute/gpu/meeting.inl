// How the kernels of ranks that use each other's memory wait for each other, each on a GPU of its own. Compiled by nvcc
// (kernels.cu), for the host (tests/support/gpu_kernels), and for a checker of memory orders
// (tests/models/meeting_test.cc): all three run this.
//
// The kernel itself does what a stream would do before and after it. It tells the ranks that use its rank's memory that
// they may, which is a message, and waits for the messages of those whose memory it uses. Afterwards it tells these
// that it has done with it, which is credit, and waits for the credit of the others. Numbers and order are those of the
// stream's commands, which algorithms/stream_tasks.cc makes, and so are the words. So a rank may as well run them in
// its stream, and a store of the host ends all waits.
//
// No block waits for another one of its own grid: the first one that runs sends the messages, and the last one that
// ends gives credit, whichever they are. So blocks may run one after the other, in any order.
//
// A file that includes this defines
//
//   Block   blocks(), of the grid; first(f), which one thread of the block runs; each(n, f), which n threads run as
//           f(0) to f(n - 1); and sync(), a barrier of the block's threads
//   Words   load(address) and store(address, value) of a word: an acquire, and a release, among all GPUs and the host;
//           pause() between loads; ticket(counter), which adds 1 and answers the value before, as acquire and release;
//           and reset(counter)

#include <cstdint>

#include "lib/compute/gpu/arguments.h"

namespace tutti::compute::gpu {
namespace {

template <class Words>
TUTTI_GPU_FUNCTION void await(std::uint64_t word, std::uint64_t value, Words words) {
  // As signed numbers, so that the largest one, which the host stores after a failure, ends all waits.
  while (static_cast<std::int64_t>(words.load(word) - value) < 0) words.pause();
}

/// Before the first access to memory of other ranks.
template <class Block, class Words>
TUTTI_GPU_FUNCTION void enter(const Meeting& meeting, Block block, Words words) {
  block.first([&] {
    if (block.blocks() > 1 && words.ticket(meeting.tickets) > 0) return;
    for (int i = 0; i < meeting.count; ++i) {
      const Meeting::Peer& peer = meeting.peers[i];
      if (peer.sent == 0) continue;
      if (peer.sent > meeting.slots) await(peer.own + Meeting::to_credit, peer.sent - meeting.slots, words);
      words.store(peer.at_peer, peer.sent);
    }
  });
  block.each(meeting.count, [&](int i) {
    const Meeting::Peer& peer = meeting.peers[i];
    if (peer.received > 0) await(peer.own, peer.received, words);
  });
  block.sync();
}

/// After the last access.
template <class Block, class Words>
TUTTI_GPU_FUNCTION void leave(const Meeting& meeting, Block block, Words words) {
  block.sync();
  block.first([&] {
    if (block.blocks() > 1) {
      if (words.ticket(meeting.tickets + 4) + 1 < block.blocks()) return;
      words.reset(meeting.tickets);
      words.reset(meeting.tickets + 4);
    }
    for (int i = 0; i < meeting.count; ++i) {
      const Meeting::Peer& peer = meeting.peers[i];
      if (peer.received > 0) words.store(peer.at_peer + Meeting::to_credit, peer.received);
    }
    for (int i = 0; i < meeting.count; ++i) {
      const Meeting::Peer& peer = meeting.peers[i];
      if (peer.sent > 0) await(peer.own + Meeting::to_credit, peer.sent, words);
    }
  });
}

}  // namespace
}  // namespace tutti::compute::gpu
