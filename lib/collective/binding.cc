#include "lib/collective/binding.h"

#include <algorithm>

#include "lib/base/collective_traits.h"
#include "lib/base/memory_units.h"

namespace tutti::detail {
std::size_t piece_offset(std::size_t count, std::size_t pieces, std::size_t piece, std::size_t element_size) {
  // With pieces of whole cache lines, no two ranks write to one line, and kernels see aligned addresses. With fewer
  // than four lines per piece the imbalance would cost more than that.
  const std::size_t line = std::max<std::size_t>(1, cache_line / element_size);
  const std::size_t unit = count / line >= 4 * pieces ? line : 1;
  const std::size_t units = count / unit + (count % unit != 0 ? 1 : 0);
  const std::size_t each = units / pieces;
  const std::size_t larger = units % pieces;
  return std::min(count, (piece * each + std::min(piece, larger)) * unit);
}

Partition Partition::of(Collective collective, std::size_t count, int ranks, int pipeline, std::size_t element_size) {
  if (collective == Collective::barrier)
    return parts(static_cast<std::size_t>(pipeline), pipeline, 1);  // a barrier moves tokens
  if (traits_of(collective).has_parts()) return parts(count, pipeline, element_size);
  return vector(count, ranks * pipeline, element_size);
}

Partition Partition::vector(std::size_t count, int blocks, std::size_t element_size) {
  Partition partition;
  partition.count_ = count;
  partition.pieces_ = blocks;
  partition.one_vector_ = true;
  partition.cut_size_ = partition.element_size_ = element_size;
  return partition;
}

Partition Partition::parts(std::size_t count, int pipeline, std::size_t element_size) {
  Partition partition;
  partition.count_ = count;
  partition.pieces_ = pipeline;
  partition.cut_size_ = partition.element_size_ = element_size;
  return partition;
}

Partition Partition::parts(std::span<const std::size_t> prefix, int pipeline, std::size_t element_size) {
  Partition partition = parts(std::size_t{0}, pipeline, element_size);
  partition.prefix_ = prefix;
  return partition;
}

Partition Partition::with_elements_of(std::size_t size) const {
  Partition partition = *this;
  partition.element_size_ = size;
  return partition;
}

/// Among equal parts the first one has the largest piece. In one vector, pieces do not get larger towards the end.
std::size_t Partition::largest(int blocks) const {
  if (prefix_.empty()) return offset(blocks);
  std::size_t largest = 0;
  const int all = static_cast<int>(prefix_.size() - 1) * pieces_;
  for (int block = 0; block + blocks <= all; block += blocks)
    largest = std::max(largest, offset(block + blocks) - offset(block));
  return largest;
}

std::size_t Partition::offset_of_piece(int block) const {
  const auto pieces = static_cast<std::size_t>(pieces_);
  const auto index = static_cast<std::size_t>(block);
  if (one_vector_) return element_size_ * piece_offset(count_, pieces, index, cut_size_);
  const std::size_t part = index / pieces;
  const std::size_t piece = index % pieces;
  const std::size_t begin = prefix_.empty() ? part * count_ : prefix_[part];
  if (piece == 0) return element_size_ * begin;
  const std::size_t size = prefix_.empty() ? count_ : prefix_[part + 1] - begin;
  return element_size_ * (begin + piece_offset(size, pieces, piece, cut_size_));
}

std::span<std::byte> Binding::bytes(const algorithms::Blocks& blocks) const {
  if (blocks.buffer == algorithms::Buffer::scratch) {
    const auto first = static_cast<std::size_t>(blocks.first);
    const std::size_t begin = scratch_offset[first];
    return {scratch + begin, scratch_offset[first + static_cast<std::size_t>(blocks.count)] - begin};
  }
  return (blocks.buffer == algorithms::Buffer::input ? input : output).bytes(blocks.first, blocks.count);
}

std::span<std::byte> Binding::CutBuffer::bytes(int first_block, int count) const {
  const std::size_t begin = partition.offset(first_block);
  return {at(begin), partition.offset(first_block + count) - begin};
}

std::size_t Binding::lay_out_scratch(const algorithms::Plan& plan, const Partition& like) {
  scratch_offset.resize(plan.scratch_like.size() + 1);
  std::size_t end = 0;
  for (std::size_t slot = 0; slot < plan.scratch_like.size(); ++slot) {
    scratch_offset[slot] = end;
    const int block = plan.scratch_like[slot];
    end += like.offset(block + 1) - like.offset(block);
  }
  scratch_offset.back() = end;
  return end;
}

}  // namespace tutti::detail
