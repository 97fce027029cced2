#include "lib/binding.h"

#include <algorithm>
#include <cstdint>

namespace tutti::detail {
namespace {

constexpr std::size_t cache_line = 64;

}  // namespace

std::size_t piece_offset(std::size_t count, std::size_t pieces, std::size_t piece, std::size_t element_size) {
  // Whole cache lines keep two ranks from writing into one line and kernels on aligned addresses; with fewer than
  // four lines per piece the imbalance would cost more than that.
  const std::size_t line = std::max<std::size_t>(1, cache_line / element_size);
  const std::size_t unit = count / line >= 4 * pieces ? line : 1;
  const std::size_t units = count / unit + (count % unit != 0 ? 1 : 0);
  const std::size_t each = units / pieces;
  const std::size_t larger = units % pieces;
  return std::min(count, (piece * each + std::min(piece, larger)) * unit);
}

Partition Partition::vector(std::size_t count, int blocks, std::size_t element_size) {
  Partition partition;
  partition.count_ = count;
  partition.pieces_ = blocks;
  partition.one_vector_ = true;
  partition.element_size_ = element_size;
  return partition;
}

Partition Partition::parts(std::size_t count, int pipeline, std::size_t element_size) {
  Partition partition;
  partition.count_ = count;
  partition.pieces_ = pipeline;
  partition.element_size_ = element_size;
  return partition;
}

Partition Partition::parts(std::span<const std::size_t> prefix, int pipeline, std::size_t element_size) {
  Partition partition = parts(std::size_t{0}, pipeline, element_size);
  partition.prefix_ = prefix;
  return partition;
}

std::size_t Partition::offset(int block) const {
  const auto pieces = static_cast<std::size_t>(pieces_);
  const auto index = static_cast<std::size_t>(block);
  if (one_vector_) return element_size_ * piece_offset(count_, pieces, index, element_size_);
  const std::size_t part = index / pieces;
  const std::size_t piece = index % pieces;
  const std::size_t begin = prefix_.empty() ? part * count_ : prefix_[part];
  if (piece == 0) return element_size_ * begin;
  const std::size_t size = prefix_.empty() ? count_ : prefix_[part + 1] - begin;
  return element_size_ * (begin + piece_offset(size, pieces, piece, element_size_));
}

std::span<std::byte> Binding::bytes(const algorithms::Blocks& blocks) const {
  if (blocks.buffer == algorithms::Buffer::scratch) {
    const auto first = static_cast<std::size_t>(blocks.first);
    const std::size_t begin = scratch_offset[first];
    return {scratch + begin, scratch_offset[first + static_cast<std::size_t>(blocks.count)] - begin};
  }
  const Side& side = blocks.buffer == algorithms::Buffer::input ? input : output;
  const std::size_t begin = side.partition.offset(blocks.first);
  // As a number: the origin may lie outside of any object, and who has no element may have no memory.
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(side.origin) + begin;
  return {reinterpret_cast<std::byte*>(address), side.partition.offset(blocks.first + blocks.count) - begin};
}

std::size_t Binding::lay_out_scratch(const algorithms::Plan& plan) {
  scratch_offset.resize(plan.scratch_like.size() + 1);
  std::size_t end = 0;
  for (std::size_t slot = 0; slot < plan.scratch_like.size(); ++slot) {
    scratch_offset[slot] = end;
    const int like = plan.scratch_like[slot];
    end += input.partition.offset(like + 1) - input.partition.offset(like);
  }
  scratch_offset.back() = end;
  return end;
}

}  // namespace tutti::detail
