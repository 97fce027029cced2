#include "lib/flat_call.h"

#include <cstring>

namespace tutti::detail {
namespace {

void copy(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

}  // namespace

FlatCall FlatCall::of(const Request& request, int rank, int ranks, const compute::Table& kernels) {
  FlatCall call;
  call.collective = request.collective;
  call.rank = rank;
  call.ranks = ranks;
  call.root = request.root;
  if (request.collective == Collective::barrier) return call;
  call.arithmetic = Arithmetic{kernels, type_of(request), request.op ? *request.op : sum};
  call.input = static_cast<std::byte*>(const_cast<void*>(request.input.data));
  call.output = static_cast<std::byte*>(request.output.data);
  call.vector_bytes = part_count(request, static_cast<std::size_t>(ranks)) * call.arithmetic.element_size();
  return call;
}

std::size_t FlatCall::offset(int part) const {
  const auto index = static_cast<std::size_t>(part);
  return prefix.empty() ? index * vector_bytes : prefix[index] * arithmetic.element_size();
}

bool FlatCall::reads(int peer) const {
  switch (collective) {
    case Collective::broadcast:
    case Collective::scatter:
      return peer == root;
    case Collective::reduce:
    case Collective::gather:
      return is_root();
    default:
      return true;
  }
}

/// Of what all ranks' posts hold the reader needs only its part, if there are any.
std::span<const std::byte> FlatCall::contribution() const {
  switch (collective) {
    case Collective::barrier:
      return {};
    case Collective::all_reduce:
    case Collective::reduce:
      return {input, vector_bytes};
    case Collective::broadcast:
      return {output, is_root() ? vector_bytes : 0};
    case Collective::all_gather:
    case Collective::gather:
      return {input, size(rank)};
    case Collective::scatter:
      return {input, is_root() ? offset(ranks) : 0};
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return {input, offset(ranks)};
  }
  return {};
}

/// output = the left fold, in rank order, of `bytes` bytes from `from` on in every rank's contribution of `whole`
/// bytes.
void FlatCall::fold(const transport::Board& board, std::size_t whole, std::size_t from,
                    std::size_t bytes) const noexcept {
  const auto part = [&](int peer) { return board.contribution(peer, whole).data() + from; };
  arithmetic.combine(output, part(0), part(1), bytes);
  for (int peer = 2; peer < ranks; ++peer) arithmetic.combine(output, output, part(peer), bytes);
  arithmetic.finish(output, bytes, ranks);
}

void FlatCall::take(const transport::Board& board) const noexcept {
  switch (collective) {
    case Collective::barrier:
      return;
    case Collective::all_reduce:
      return fold(board, vector_bytes, 0, vector_bytes);
    case Collective::reduce:
      if (is_root()) fold(board, vector_bytes, 0, vector_bytes);
      return;
    case Collective::reduce_scatter:
      return fold(board, offset(ranks), offset(rank), size(rank));
    case Collective::broadcast:
      if (!is_root()) copy(output, board.contribution(root, vector_bytes));
      return;
    case Collective::scatter:
      return copy(output, board.contribution(root, offset(ranks)).subspan(offset(rank), size(rank)));
    case Collective::gather:
      if (!is_root()) return;
      [[fallthrough]];
    case Collective::all_gather:
      for (int peer = 0; peer < ranks; ++peer) copy(output + offset(peer), board.contribution(peer, size(peer)));
      return;
    case Collective::all_to_all:
      for (int peer = 0; peer < ranks; ++peer)
        copy(output + offset(peer), board.contribution(peer, offset(ranks)).subspan(offset(rank), size(rank)));
      return;
  }
}

}  // namespace tutti::detail
