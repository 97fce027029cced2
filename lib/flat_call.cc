#include "lib/flat_call.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace tutti::detail {
namespace {

/// A reduction reads all ranks' pieces at once, and writes another: they should lie in the nearest caches together.
constexpr std::size_t piece_to_reduce = 64 * 1024;

using Operands = std::array<const std::byte*, transport::Board::most_ranks>;
constexpr std::size_t line = 64;
constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max() / 2;

}  // namespace

FlatCall FlatCall::of(const Request& request, int rank, int ranks, const compute::Table& kernels, std::size_t capacity,
                      const Place& place) {
  FlatCall call;
  call.place = place;
  call.collective = request.collective;
  call.rank = rank;
  call.ranks = ranks;
  call.root = request.root;
  if (request.collective == Collective::barrier) return call;
  call.arithmetic = Arithmetic{kernels, type_of(request), request.op ? *request.op : sum};
  call.input = static_cast<std::byte*>(const_cast<void*>(request.input.data));
  call.output = static_cast<std::byte*>(request.output.data);
  call.vector_bytes = part_count(request, static_cast<std::size_t>(ranks)) * call.arithmetic.element_size();
  call.copy_streaming = kernels.copy_streaming;
  call.streams = !call.arithmetic.finishes() && detail::streams(request.output.count * call.arithmetic.element_size());
  if (is_reduction(request.collective)) capacity = std::min(capacity, piece_to_reduce);
  if (place.given()) capacity = no_limit;
  call.piece_bytes = capacity / (call.contributes_parts() ? static_cast<std::size_t>(ranks) : 1) / 64 * 64;
  call.count_rounds();
  return call;
}

std::size_t FlatCall::offset(int part) const {
  const auto index = static_cast<std::size_t>(part);
  return prefix_.empty() ? index * vector_bytes : prefix_[index] * arithmetic.element_size();
}

bool FlatCall::reads(Collective collective, int root, int reader, int writer) {
  switch (collective) {
    case Collective::broadcast:
    case Collective::scatter:
      return writer == root;
    case Collective::reduce:
    case Collective::gather:
      return reader == root;
    default:
      return true;
  }
}

std::size_t FlatCall::message_bytes(int writer, int reader, int round) const {
  const bool own_part = contributes_parts() && !place.given();
  return own_part ? piece_of_part(reader, round).size : size_of_round(writer, round);
}

// ---- Rounds ----------------------------------------------------------------------------------------------------

/// One for each rank, of which a reader needs only its own.
bool FlatCall::contributes_parts() const {
  return collective == Collective::scatter || collective == Collective::reduce_scatter ||
         collective == Collective::all_to_all;
}

/// A rank's part for itself stays where it is, unless it is folded: its input may be overwritten before its turn.
bool FlatCall::is_kept(int writer, int part) const { return part == writer && !is_reduction(collective); }

/// Of the parts before `end` that `writer` puts there.
std::size_t FlatCall::bytes_of_parts(int writer, int end, int round) const {
  if (prefix_.empty()) {
    const int kept = writer < end && is_kept(writer, writer) ? 1 : 0;
    return piece_of_part(0, round).size * static_cast<std::size_t>(end - kept);
  }
  std::size_t size = 0;
  for (int part = 0; part < end; ++part) size += is_kept(writer, part) ? 0 : piece_of_part(part, round).size;
  return size;
}

std::size_t FlatCall::largest_part() const {
  std::size_t largest = prefix_.empty() ? vector_bytes : 0;
  for (std::size_t part = 0; part + 1 < prefix_.size(); ++part)
    largest = std::max(largest, size(static_cast<int>(part)));
  return largest;
}

void FlatCall::count_rounds() {
  const std::size_t largest = largest_part();
  rounds_ = place.given()            ? 2
            : largest <= piece_bytes ? 1
                                     : static_cast<int>((largest + piece_bytes - 1) / piece_bytes);
  own_size_ = size_of_round(rank, 0);
  size_ = size_of_round(root, 0);
}

void FlatCall::give_parts(std::span<const std::size_t> elements_before) {
  prefix_ = elements_before;
  count_rounds();
}

FlatCall::Range FlatCall::piece(Range whole, int round) const {
  const std::size_t begin = std::min(whole.size, static_cast<std::size_t>(round) * piece_bytes);
  return {whole.begin + begin, std::min(piece_bytes, whole.size - begin)};
}

std::size_t FlatCall::size_of_round(int peer, int round) const {
  if (place.given()) return round == 0 ? sizeof(Place::Offsets) : 0;
  switch (collective) {
    case Collective::barrier:
      return 0;
    case Collective::all_reduce:
    case Collective::reduce:
      return piece({0, vector_bytes}, round).size;
    case Collective::broadcast:
      return peer == root ? piece({0, vector_bytes}, round).size : 0;
    case Collective::all_gather:
    case Collective::gather:
      return piece_of_part(peer, round).size;
    case Collective::scatter:
      if (peer != root) return 0;
      [[fallthrough]];
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return bytes_of_parts(peer, ranks, round);
  }
  return 0;
}

std::span<const std::byte> FlatCall::contribution() const {
  if (place.given()) return {};
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

void FlatCall::put(std::byte* room, const std::byte* contribution, int round,
                   transport::StorePath& path) const noexcept {
  if (place.given()) {
    if (round == 0) std::memcpy(room, &place.offsets, sizeof place.offsets);
    return;
  }
  if (!contributes_parts()) {
    const std::size_t skipped = static_cast<std::size_t>(round) * piece_bytes;
    const std::size_t bytes = size_of_round(round);
    if (bytes > 0) path.copy(room, contribution + skipped, bytes);
    return;
  }
  if (collective == Collective::scatter && !is_root()) return;
  for (int part = 0; part < ranks; ++part) {
    const Range from = is_kept(rank, part) ? Range{} : piece_of_part(part, round);
    if (from.size > 0) path.copy(room, contribution + from.begin, from.size);
    room += from.size;
  }
}

// ---- What becomes of it ----------------------------------------------------------------------------------------

/// To where it ends.
void FlatCall::copy(std::byte* to, const std::byte* from, std::size_t bytes) const noexcept {
  if (bytes == 0 || to == from) return;
  if (streams) {
    copy_streaming(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

const std::byte* FlatCall::posted(const transport::Board& board, int peer, int round) const {
  const std::size_t parts = contributes_parts() ? static_cast<std::size_t>(ranks) : 1;
  if (place.input) return place.input->at(peer, offsets_of(board, peer).input, parts * vector_bytes);
  if (place.output) return place.output->at(peer, offsets_of(board, peer).output, vector_bytes);
  const bool alike = rounds_ == 1 && prefix_.empty();
  return board.contribution(peer, alike ? size_ : size_of_round(peer, round)).data();
}

/// Of the first round.
Place::Offsets FlatCall::offsets_of(const transport::Board& board, int peer) const {
  Place::Offsets offsets;
  std::memcpy(&offsets, board.contribution(peer, sizeof offsets).data(), sizeof offsets);
  return offsets;
}

/// What is for this rank, of the parts that `peer` has put there.
const std::byte* FlatCall::own_part_posted(const transport::Board& board, int peer, int round) const {
  if (place.given()) return posted(board, peer, round) + offset(rank);
  return posted(board, peer, round) + bytes_of_parts(peer, rank, round);
}

/// The left fold, in rank order, of all ranks' pieces. A rank's own is nearer where it came from, unless it would be
/// overwritten before its turn.
void FlatCall::fold(const transport::Board& board, int round) const noexcept {
  const bool scatters = collective == Collective::reduce_scatter;
  const Range whole = scatters ? Range{offset(rank), size(rank)} : Range{0, vector_bytes};
  const Range from = piece(whole, round);
  std::byte* const to = output + (from.begin - whole.begin);
  const auto theirs = [&](int peer) {
    return scatters ? own_part_posted(board, peer, round) : posted(board, peer, round);
  };

  const bool in_place = input + from.begin == to;
  const bool kept = !in_place || rank == 0 || arithmetic.is_symmetric();
  Operands operands;
  for (int peer = 0; peer < ranks; ++peer)
    operands[static_cast<std::size_t>(peer)] = peer == rank && kept ? input + from.begin : theirs(peer);
  arithmetic.fold(to, std::span{operands}.first(static_cast<std::size_t>(ranks)), from.size, streams && !in_place);
  arithmetic.finish(to, from.size, ranks);
}

void FlatCall::fetch_own_part(const transport::Board& board, int peer, int round, std::byte* to) const noexcept {
  const Range mine = piece_of_part(rank, round);
  const std::byte* const from = peer == rank ? input + mine.begin : own_part_posted(board, peer, round);
  copy(to + (mine.begin - offset(rank)), from, mine.size);
}

/// This rank's part of an all_reduce in windows, piece by piece, so that what is copied to the others is in the caches
/// yet. Its operands and results are touched by no other rank.
void FlatCall::share_the_folding(const transport::Board& board) const noexcept {
  const std::size_t lines = (vector_bytes + line - 1) / line;
  const auto begin_of = [&](int part) {
    return std::min(vector_bytes, lines * static_cast<std::size_t>(part) / static_cast<std::size_t>(ranks) * line);
  };
  Operands inputs, operands;
  std::array<std::byte*, transport::Board::most_ranks> outputs;
  for (int peer = 0; peer < ranks; ++peer) {
    const Place::Offsets theirs = offsets_of(board, peer);
    inputs[static_cast<std::size_t>(peer)] = place.input->at(peer, theirs.input, vector_bytes);
    outputs[static_cast<std::size_t>(peer)] = place.output->at(peer, theirs.output, vector_bytes);
  }
  for (std::size_t at = begin_of(rank), end = begin_of(rank + 1); at < end; at += piece_to_reduce) {
    const std::size_t bytes = std::min(piece_to_reduce, end - at);
    const auto all = static_cast<std::size_t>(ranks);
    for (std::size_t peer = 0; peer < all; ++peer) operands[peer] = inputs[peer] + at;
    arithmetic.fold(output + at, std::span{operands}.first(all), bytes, false);
    arithmetic.finish(output + at, bytes, ranks);
    for (std::size_t peer = 0; peer < all; ++peer) copy(outputs[peer] + at, output + at, bytes);
  }
}

/// The root writes to each rank's output.
void FlatCall::hand_out(const transport::Board& board) const noexcept {
  for (int peer = 0; is_root() && peer < ranks; ++peer)
    copy(place.output->at(peer, offsets_of(board, peer).output, vector_bytes), input + offset(peer), vector_bytes);
}

void FlatCall::take(const transport::Board& board, int round) const noexcept {
  if (place.given() && round > 0) return;
  if (place.given() && collective == Collective::all_reduce) return share_the_folding(board);
  if (place.given() && collective == Collective::scatter) return hand_out(board);
  switch (collective) {
    case Collective::barrier:
      return;
    case Collective::reduce:
      if (!is_root()) return;
      [[fallthrough]];
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      return fold(board, round);
    case Collective::broadcast: {
      const Range mine = piece({0, vector_bytes}, round);
      if (!is_root()) copy(output + mine.begin, posted(board, root, round), mine.size);
      return;
    }
    case Collective::scatter:
      return fetch_own_part(board, root, round, output);
    case Collective::gather:
      if (!is_root()) return;
      [[fallthrough]];
    case Collective::all_gather:
      for (int peer = 0; peer < ranks; ++peer) {
        const Range theirs = piece_of_part(peer, round);
        const std::byte* const from = peer == rank ? input + (theirs.begin - offset(peer)) : posted(board, peer, round);
        copy(output + theirs.begin, from, theirs.size);
      }
      return;
    case Collective::all_to_all:
      for (int peer = 0; peer < ranks; ++peer) fetch_own_part(board, peer, round, output + offset(peer));
      return;
  }
}

}  // namespace tutti::detail
