#include "lib/board/window_call.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tutti::detail {
namespace {

using algorithms::Blocks;

/// A result for several ranks is made in pieces, which are still in the nearest caches when they are copied.
constexpr std::size_t piece_bytes = 64 * 1024;

void copy_bytes(compute::Copy copy, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) copy(to, from, bytes);
}

template <class Pointer>
using ByRank = std::array<Pointer, transport::Board::most_ranks>;

}  // namespace

std::size_t WindowCall::put(std::byte* room, int round) const noexcept {
  if (round == 0) std::memcpy(room, &location_.offsets, sizeof location_.offsets);
  return size_of_round(round);
}

/// Where these blocks of `rank` are mapped in this process.
std::byte* WindowCall::find(const transport::Board& board, const CallBuffers& buffers, int rank,
                            const Blocks& blocks) const {
  const bool is_input = blocks.buffer == algorithms::Buffer::input;
  const Binding::CutBuffer& used = is_input ? buffers.input : buffers.output;
  if (rank == rank_) return used.bytes(blocks.first, blocks.count).data();
  WindowLocation::Offsets theirs;
  std::memcpy(&theirs, board.contribution(rank, sizeof theirs, transport::Flow::exchange).data(), sizeof theirs);
  const bool own_part = is_input ? buffers.own_input : buffers.own_output;
  const int pipeline = pipeline_, ranks = static_cast<int>(program_->others.size()) + 1;
  const std::size_t begin = own_part ? used.partition.offset(rank * pipeline) : 0;
  const std::size_t end = used.partition.offset((own_part ? rank + 1 : ranks) * pipeline);
  const Window& window = is_input ? *location_.input : *location_.output;
  std::byte* const buffer = window.at(rank, is_input ? theirs.input : theirs.output, end - begin);
  return buffer + (used.partition.offset(blocks.first) - begin);
}

std::size_t WindowCall::take(const transport::Board& board, const CallBuffers& buffers, const Arithmetic& arithmetic,
                             compute::Copy copy) const noexcept {
  std::size_t moved = 0;
  for (const Task& task : program_->tasks) moved += run(board, buffers, arithmetic, copy, task);
  return moved;
}

std::size_t WindowCall::run(const transport::Board& board, const CallBuffers& buffers, const Arithmetic& arithmetic,
                            compute::Copy copy, const Task& task) const noexcept {
  const auto sources = static_cast<std::size_t>(task.source_count), targets = static_cast<std::size_t>(task.to_count);
  const Binding::CutBuffer& output = buffers.output;
  const std::size_t size = output.bytes(task.dst.first, task.dst.count).size();
  ByRank<const std::byte*> from, operands;
  ByRank<std::byte*> to;
  std::size_t foreign = 0;
  for (std::size_t i = 0; i < sources; ++i) {
    const auto& source = program_->sources[static_cast<std::size_t>(task.source) + i];
    from[i] = find(board, buffers, source.rank, source.blocks);
    foreign += source.rank == rank_ ? 0 : 1;
  }
  for (std::size_t i = 0; i < targets; ++i) {
    const int rank = program_->destinations[static_cast<std::size_t>(task.to) + i];
    to[i] = find(board, buffers, rank, task.dst);
    foreign += rank == rank_ ? 0 : 1;
  }
  if (sources == 1 && targets == 1) {
    copy_bytes(copy, to[0], from[0], size);
    return foreign * size;
  }
  for (std::size_t at = 0; at < size; at += piece_bytes) {
    const std::size_t bytes = std::min(piece_bytes, size - at);
    for (std::size_t i = 0; i < sources; ++i) operands[i] = from[i] + at;
    if (sources == 1) {
      copy_bytes(copy, to[0] + at, operands[0], bytes);
    } else {
      arithmetic.fold(to[0] + at, std::span{operands}.first(sources), bytes, false);
    }
    for (std::size_t i = 1; i < targets; ++i) copy_bytes(copy, to[i] + at, to[0] + at, bytes);
  }
  return foreign * size;
}

}  // namespace tutti::detail
