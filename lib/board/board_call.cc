#include "lib/board/board_call.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/base/index.h"
#include "lib/base/memory_units.h"
#include "lib/collective/call.h"
#include "lib/collective/planner.h"

namespace tutti::detail {
namespace {

using algorithms::Blocks;
using algorithms::BoardProgram;
using transport::Flow;

/// A rank that sums whole vectors reads the pieces of all ranks together and writes another one. All of them should fit
/// into the nearest caches. So should the scratch of a plan by domains. If a post has several units, each reader sums
/// one of them, and reads little of each piece.
constexpr std::size_t piece_to_reduce = 64 * 1024;
/// The longest part for which a call of two rounds may run inline.
constexpr std::size_t most_inline = std::size_t{1} << 20;

using Operands = std::array<const std::byte*, transport::Board::most_ranks>;

}  // namespace

BoardCall BoardCall::of(const Request& request, const Prepared& prepared, const WindowLocation& location,
                        const Ground& ground, PartOffsets& offsets) {
  const int pipeline = prepared.plan.shape.pipeline;
  BoardCall call;
  call.blocks_ = ground.ranks * pipeline;
  call.scratch_ = prepared.board_scratch.get();
  call.buffers_ = buffers_of(request, ground.rank, ground.ranks, pipeline, offsets);
  call.arithmetic_ = Arithmetic{*ground.kernels, type_of(request), request.op ? *request.op : sum, ground.ranks};
  call.computes_ = request.op != nullptr;
  call.part_bytes_ = part_count(request, at(ground.ranks)) * call.arithmetic_.element_size();
  call.streams_ =
      !call.arithmetic_.averages() && compute::streams(request.output.count * call.arithmetic_.element_size());
  call.copy_ = call.streams_ ? ground.kernels->copy_streaming : ground.kernels->copy;
  if (prepared.row) {
    call.bind_to_row(*prepared.row, request, ground.rank);
    return call;
  }
  call.program_ = &*prepared.board;
  call.by_domains_ = prepared.board->by_domains;
  if (location.given()) {
    call.window_ = WindowCall{*prepared.window, location, ground.rank, pipeline};
    call.phases_[0].awaited = prepared.window->others;
    call.phases_[0].flow = Flow::exchange;
    call.phases_[0].pieces = call.rounds_ = WindowCall::rounds;
    call.reserve(1);
    call.may_run_inline_ = call.part_bytes_ <= most_inline;
    return call;
  }
  const auto& rounds = call.program_->rounds;
  call.rounds_ = 0;
  for (std::size_t k = 0; k < rounds.size(); ++k) {
    const bool is_small = call.computes_ && (call.by_domains_ || rounds[k].most_units <= 1);
    call.bind(call.phases_[k], rounds[k], is_small ? std::min(ground.capacity, piece_to_reduce) : ground.capacity);
    call.rounds_ += call.phases_[k].pieces;
  }
  // A rank that waits for all others can begin the next round afterwards, since all have begun this one.
  const bool waits_for_all = std::cmp_equal(rounds[0].awaited.size(), ground.ranks - 1);
  call.contribution_ = call.own_data(call.phases_[0]);
  call.may_run_inline_ = call.rounds_ == 1 || (call.rounds_ == 2 && rounds.size() == 2 && waits_for_all);
  const bool is_short = std::cmp_equal(call.rounds_, rounds.size());
  call.reserve(call.may_run_inline_ || !is_short ? 1 : call.rounds_);
  if (is_short && !call.may_run_inline_)
    call.may_run_inline_ = transport::AreaLayout::of(ground.ranks).has_room_for(call.reservation_);
  return call;
}

void BoardCall::reserve(int rounds) {
  for (int round = 0; round < rounds; ++round) reservation_.add(size_of_round(round), flow(round));
}

void BoardCall::bind_to_row(const algorithms::RowProgram& program, const Request& request, int rank) {
  contribution_ = {static_cast<const std::byte*>(request.input.data), request.input.count * arithmetic_.element_size()};
  const RowCall::Buffers buffers{static_cast<std::byte*>(request.output.data), request.input.count,
                                 request.input.data == request.output.data};
  row_ = RowCall{program, rank, buffers, arithmetic_, streams_ ? copy_ : nullptr};
  rounds_ = row_.rounds();
  phases_[0].own_size = row_.size_of_round(0);
  part_ = transport::BoardPart::slots;
}

std::size_t BoardCall::scratch_bytes(const BoardProgram& program) {
  return at(program.scratch_areas) * piece_to_reduce;
}

bool BoardCall::fits(const BoardProgram& program, std::size_t capacity, std::size_t bytes) {
  if (program.by_domains && bytes > std::min(capacity, piece_to_reduce)) return false;
  const std::size_t most_pieces = std::numeric_limits<int>::max() / std::max<std::size_t>(1, program.rounds.size());
  return std::ranges::all_of(program.rounds, [&](const Round& round) {
    const std::size_t lines = std::min(capacity, piece_to_reduce) / cache_line / at(std::max(1, round.most_units));
    return lines > 0 && bytes / (lines * cache_line) < most_pieces;
  });
}

// ---- Rounds ----------------------------------------------------------------------------------------------------

void BoardCall::bind(Phase& phase, const Round& round, std::size_t capacity) {
  phase.round = &round;
  phase.awaited = round.awaited;
  phase.own_copies = round.own_copies;
  phase.flow = round.exchanges() ? Flow::exchange : round.contributors == 1 ? Flow::from_one : Flow::one_way;
  phase.ranges = round.contributions[at(program_->rank)].ranges;
  const std::size_t units = at(std::max(1, round.most_units));
  const Partition& partition = buffers_.input.partition;
  const std::size_t largest = partition.largest(round.unit_blocks);
  const bool one_unit = partition.is_one_vector() && round.unit_blocks == partition.pieces();
  const bool equal_units = round.same_parts && partition.has_equal_parts();
  phase.unit_bytes = one_unit || equal_units ? largest : 0;
  phase.piece_bytes = capacity / units / cache_line * cache_line;
  phase.pieces =
      largest <= phase.piece_bytes ? 1 : static_cast<int>((largest + phase.piece_bytes - 1) / phase.piece_bytes);
  if (units * largest > transport::post_bytes) part_ = transport::BoardPart::areas;
  if (phase.pieces > 1) {
    phase.size = units * phase.piece_bytes;
  } else if (equal_units || round.same_blocks) {
    phase.size = size_of(phase, round.first_contributor);
  }
  phase.own_size = size_of(phase, program_->rank);
  phase.is_one_piece = phase.pieces == 1 && phase.ranges.size() == 1;
}

std::size_t BoardCall::size_of_one_of_many(int round) const {
  if (in_row()) return row_.size_of_round(round);
  return is_in_window() ? window_.size_of_round(round) : phase_of(round).own_size;
}

std::size_t BoardCall::size_of(const Phase& phase, int peer) const {
  const BoardProgram::Contribution& contribution = phase.round->contributions[at(peer)];
  if (phase.size > 0 || contribution.units == 0) return contribution.units == 0 ? 0 : phase.size;
  std::size_t size = 0;
  for (const Blocks& range : contribution.ranges) size += range_of(range).size;
  return size;
}

BoardCall::Range BoardCall::piece(const Phase& phase, std::size_t unit_size, int number) const {
  if (phase.pieces == 1) return {0, unit_size};
  const std::size_t begin = std::min(unit_size, at(number) * phase.piece_bytes);
  return {begin, std::min(phase.piece_bytes, unit_size - begin)};
}

// ---- Writing to the board ---------------------------------------------------------------------------------------

std::byte* BoardCall::address(const Blocks& blocks, std::size_t offset) const {
  if (blocks.buffer != algorithms::Buffer::scratch) return buffer(blocks.buffer).at(offset);
  return scratch_ + at(blocks.first / blocks_) * piece_to_reduce + offset;
}

std::span<const std::byte> BoardCall::own_data(const Phase& phase) const {
  if (phase.ranges.empty()) return {};
  const Range first = range_of(phase.ranges.front()), last = range_of(phase.ranges.back());
  return {address(phase.ranges.front(), first.begin), last.begin + last.size - first.begin};
}

void BoardCall::contribute_instead(const std::byte* data) {
  buffers_.input.origin = origin(data, 0);
  contribution_ = in_row() ? std::span{data, contribution_.size()} : own_data(phases_[0]);
}

std::size_t BoardCall::put_pieces(std::byte* room, const std::byte* contribution, int round,
                                  transport::StoreChoice& path) const noexcept {
  if (is_in_window()) return window_.put(room, round);
  const Phase& phase = phase_of(round);
  if (phase.own_size == 0) return 0;
  const std::byte* const from = &phase == phases_.data() ? contribution : own_data(phase).data();
  if (phase.is_one_piece) {
    path.copy(room, from, phase.own_size);
    return phase.own_size;
  }
  const std::size_t skipped = range_of(phase.ranges.front()).begin;
  std::size_t bytes = 0;
  for (const Blocks& range : phase.ranges) {
    const int unit_blocks = phase.pieces == 1 ? range.count : phase.round->unit_blocks;
    for (int block = range.first; block < range.first + range.count; block += unit_blocks) {
      const Range unit = range_of({range.buffer, block, unit_blocks});
      const Range part = piece(phase, unit.size, piece_of(round));
      if (part.size > 0) path.copy(room, from + (unit.begin + part.begin - skipped), part.size);
      room += phase.pieces == 1 ? part.size : phase.piece_bytes;
      bytes += part.size;
    }
  }
  return bytes;
}

/// Where the source's piece of this round lies on the board.
const std::byte* BoardCall::posted(const transport::Board& board, const Phase& phase, const Source& source) const {
  const std::size_t size = phase.size > 0 ? phase.size : size_of(phase, source.rank);
  const std::byte* from = board.contribution(source.rank, size, phase.flow).data();
  if (source.unit == 0) return from;
  if (phase.pieces > 1) return from + at(source.unit) * phase.piece_bytes;
  if (phase.unit_bytes > 0) return from + at(source.unit) * phase.unit_bytes;
  const std::vector<Blocks>& ranges = phase.round->contributions[at(source.rank)].ranges;
  for (int i = 0; i < source.range; ++i) from += range_of(ranges[at(i)]).size;
  return from + (range_of(source.blocks).begin - range_of(ranges[at(source.range)]).begin);
}

// ---- Reading the board -----------------------------------------------------------------------------------------

/// Copies to the destination of the call, past the caches if the result is large.
void BoardCall::copy(std::byte* to, const std::byte* from, std::size_t bytes) const noexcept {
  if (bytes > 0 && to != from) copy_(to, from, bytes);
}

/// The part of the vector that a round of the board makes of that result.
BoardCall::Range BoardCall::made_in(const Phase& phase, const Result& result, int round) const {
  const bool in_scratch = result.dst.buffer == algorithms::Buffer::scratch;
  const int first_block = in_scratch ? result.dst.first % blocks_ : result.dst.first;
  const std::size_t unit_begin = buffers_.output.partition.offset(first_block);
  const std::size_t unit_size = phase.unit_bytes > 0 ? phase.unit_bytes : range_of(result.dst).size;
  const Range part = piece(phase, unit_size, piece_of(round));
  return {unit_begin + part.begin, part.size};
}

std::size_t BoardCall::make_results(const transport::Board& board, int round) const noexcept {
  if (is_in_window()) {
    if (round > 0) return 0;
    return window_.take(board, buffers_, arithmetic_, copy_);
  }
  const Phase& phase = phase_of(round);
  std::size_t read = 0;
  for (const Result& result : std::span{phase.round->results}.subspan(at(phase.own_copies))) {
    const Range part = made_in(phase, result, round);
    if (part.size == 0) continue;
    if (result.count > 1) {
      read += fold(board, phase, result, part.begin, part.size);
      continue;
    }
    const Source& source = phase.round->sources[at(result.first)];
    const bool own = source.rank == program_->rank;
    copy(address(result.dst, part.begin), own ? address(source.blocks, part.begin) : posted(board, phase, source),
         part.size);
    read += own ? 0 : part.size;
  }
  return read;
}

std::size_t BoardCall::copy_own(int round) const noexcept {
  const Phase& phase = phase_of(round);
  std::size_t copied = 0;
  for (const Result& result : std::span{phase.round->results}.first(at(phase.own_copies))) {
    const Range part = made_in(phase, result, round);
    std::byte* const to = address(result.dst, part.begin);
    const std::byte* const from = address(phase.round->sources[at(result.first)].blocks, part.begin);
    copy(to, from, part.size);
    copied += to == from ? 0 : part.size;
  }
  return copied;
}

/// This rank's own contribution is read from its input, not from the board, unless the fold overwrites the input before
/// it reads it.
std::size_t BoardCall::fold(const transport::Board& board, const Phase& phase, const Result& result, std::size_t begin,
                            std::size_t size) const noexcept {
  const Source* const sources = phase.round->sources.data() + result.first;
  std::byte* const to = address(result.dst, begin);
  bool in_place = false;
  Operands operands;
  for (int i = 0; i < result.count; ++i) {
    const std::byte* const own = sources[i].rank == program_->rank ? address(sources[i].blocks, begin) : nullptr;
    in_place |= own == to;
    const bool is_kept = own != to || arithmetic_.is_symmetric();
    operands[at(i)] = own && (is_kept || i == 0) ? own : posted(board, phase, sources[i]);
  }
  arithmetic_.fold(to, std::span{operands}.first(at(result.count)), size, streams_ && !in_place);
  return at(result.count - 1) * size;
}

// ---- The trace -------------------------------------------------------------------------------------------------

bool BoardCall::is_read_by(int peer, int round) const {
  if (in_row()) return row_.is_read_by(peer, round);
  if (is_in_window()) return true;
  return std::ranges::any_of(phase_of(round).round->readings,
                             [peer](const BoardProgram::Reading& reading) { return reading.reader == peer; });
}

std::size_t BoardCall::bytes_to(int peer, int round) const {
  if (in_row() || is_in_window()) return size_of_round(round);
  const Phase& phase = phase_of(round);
  std::size_t bytes = 0;
  for (const BoardProgram::Reading& reading : phase.round->readings)
    if (reading.reader == peer) bytes += piece(phase, range_of(reading.blocks).size, piece_of(round)).size;
  return bytes;
}

std::size_t BoardCall::bytes_from(int peer, int round) const {
  if (in_row() || is_in_window()) return size_of_round(round);
  const Phase& phase = phase_of(round);
  std::size_t bytes = 0;
  for (const Source& source : phase.round->sources)
    if (source.rank == peer) bytes += piece(phase, range_of(source.blocks).size, piece_of(round)).size;
  return bytes;
}

}  // namespace tutti::detail
