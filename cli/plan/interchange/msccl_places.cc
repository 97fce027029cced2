// Maps the chunks of a foreign program to places of a plan.
//
// There are three differences. A program may write its input, a plan may not. Such writes go to output, if that has the
// block, and otherwise to scratch, into which the input is copied first. A program may take its input and output for
// one memory, or for two; a plan must be right in both cases. And a scratch chunk may hold blocks of any number, while
// a plan gives each slot the size of a certain block. So a chunk gets a slot for each block that it ever holds.

#include "cli/plan/interchange/msccl_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "algorithms/describe.h"
#include "cli/plan/interchange/msccl_run.h"
#include "lib/base/refuse.h"

namespace tutti::cli::interchange {
namespace {

using algorithms::Buffer;

constexpr int most_ranks = 4096;
constexpr int most_blocks = 1 << 20;      // of a vector, and of scratch
constexpr long most_places = 10'000'000;  // of all ranks

const char* buffer_name(char letter) { return letter == 'i' ? "input" : letter == 'o' ? "output" : "scratch"; }

int largest_buffer(const MscclProgram& program) {
  int chunks = 0;
  for (const MscclGpu& gpu : program.gpus) chunks = std::max({chunks, gpu.i_chunks, gpu.o_chunks});
  return chunks;
}

}  // namespace

algorithms::Shape Cut::shape_of(int rank) const {
  algorithms::Shape its = shape;
  its.rank = rank;
  return its;
}

Cut Cut::of(const MscclProgram& program) {
  const std::optional<Collective> collective = collective_of_msccl(program.coll);
  if (!collective) refuse(fmt::format("coll=\"{}\" is not a collective of tutti", program.coll));
  const int ranks = static_cast<int>(program.gpus.size());
  Cut cut{.collective = *collective, .shape = {.ranks = ranks, .root = program.root}};
  if (ranks < 1 || ranks > most_ranks) refuse(fmt::format("{} gpus are not 1 to {}", ranks, most_ranks));
  if (program.root < 0 || program.root >= ranks)
    refuse(fmt::format("root=\"{}\" is not one of its gpus", program.root));
  cut.chunks = program.nchunksperloop > 0 ? program.nchunksperloop : largest_buffer(program);
  if (cut.chunks < 1 || cut.chunks > most_blocks)
    refuse(fmt::format("{} chunks are not 1 to {}", cut.chunks, most_blocks));
  if (detail::traits_of(*collective).has_parts() && cut.chunks % ranks != 0)
    refuse(
        fmt::format("{} chunks do not fall to {} gpus evenly, as those of {} must", cut.chunks, ranks, program.coll));
  const long blocks = std::lcm(static_cast<long>(cut.chunks), static_cast<long>(ranks));
  int scratch = 0;
  for (const MscclGpu& gpu : program.gpus) scratch = std::max(scratch, gpu.s_chunks);
  if (blocks > most_blocks || (blocks / cut.chunks * scratch + blocks) * ranks > most_places)
    refuse(fmt::format("{} chunks and {} of scratch for {} gpus are too many to look at", cut.chunks, scratch, ranks));
  cut.blocks_per_chunk = static_cast<int>(blocks) / cut.chunks;
  cut.shape.pipeline = static_cast<int>(blocks) / ranks;
  cut.aliased = program.inplace && !program.outofplace;
  cut.mended = !program.inplace;
  if (cut.aliased && cut.in_place() == detail::InPlace::never)
    refuse("an alltoall in place cannot be run: tutti keeps its input and output apart (inplace=\"1\")");
  return cut;
}

Places::Places(const MscclProgram& program, const Cut& cut, int rank)
    : program_(program), cut_(cut), rank_(rank), chunks_(cut.chunks_of(rank)) {}

bool Places::has(Buffer buffer, int block) const {
  const int first = chunks_.first(buffer);
  return block >= first && block < first + chunks_.count(buffer);
}

bool Places::starts_with_input(int block) const { return has(Buffer::input, block); }

Places::Place Places::place_of(const Atom& atom, const ChunkRange& range, int i) const {
  if (range.buffer == 't') return {'t', range.first, i};
  const int index = range.first * cut_.blocks_per_chunk + i;
  const auto check_within = [&](int size) {
    if (range.first < 0 || range.first >= cut_.chunks * cut_.blocks_per_chunk + size || index >= size)
      refuse_step(program_, atom,
                  fmt::format("touches {}[{}], but this rank has {} chunks of it", buffer_name(range.buffer),
                              range.first + std::max(i, 0) / cut_.blocks_per_chunk, size / cut_.blocks_per_chunk));
  };
  if (range.buffer == 's') {
    check_within(program_.gpus[static_cast<std::size_t>(rank_)].s_chunks * cut_.blocks_per_chunk);
    return {'s', index, 0};
  }
  const Buffer buffer = range.buffer == 'i' ? Buffer::input : Buffer::output;
  // A broadcast in place has the same memory under both names, on all ranks.
  const bool whole = cut_.aliased && cut_.in_place() == detail::InPlace::always;
  check_within(whole ? cut_.blocks() : chunks_.count(buffer));
  return {cut_.aliased ? 'i' : range.buffer, (whole ? 0 : chunks_.first(buffer)) + index, 0};
}

void Places::announce(const Atom& atom) {
  ++announced_;
  if (atom.waits_only) return;
  for (int i = 0; i < atom.count * cut_.blocks_per_chunk; ++i) {
    if (algorithms::reads_left(atom.verb)) last_read_[place_of(atom, atom.left, i)] = announced_;
    if (algorithms::reads_right(atom.verb)) last_read_[place_of(atom, atom.right, i)] = announced_;
    if (algorithms::writes_dst(atom.verb)) first_write_.try_emplace(place_of(atom, atom.dst, i), announced_);
  }
}

bool Places::is_put_aside(int block) const {
  const bool input_written = first_write_.contains({'i', block, 0});
  if (cut_.aliased) return input_written && !has(Buffer::output, block);
  // In an all_to_all the library keeps the two apart; in a broadcast they hold the same data.
  const bool may_meet = cut_.in_place() == detail::InPlace::allowed;
  if (input_written || !cut_.mended || !may_meet) return input_written;
  const auto read = last_read_.find({'i', block, 0});
  const auto write = first_write_.find({'o', block, 0});
  return read != last_read_.end() && write != first_write_.end() && read->second > write->second;
}

int Places::number_at(const Place& place) const {
  if (const auto found = holds_.find(place); found != holds_.end()) return found->second;
  const auto& [kind, block, part] = place;
  return kind == 'i' && starts_with_input(block) ? block : -1;
}

std::vector<Spot> Places::read(const Atom& atom, const ChunkRange& range, std::vector<int>& numbers) {
  std::vector<Spot> spots;
  numbers.clear();
  for (int i = 0; i < atom.count * cut_.blocks_per_chunk; ++i) {
    const Place place = place_of(atom, range, i);
    numbers.push_back(number_at(place));
    if (numbers.back() < 0)
      refuse_step(program_, atom,
                  fmt::format("reads {}[{}] before it is written", buffer_name(range.buffer),
                              range.first + i / cut_.blocks_per_chunk));
    spots.push_back(spot_of(place, numbers.back(), false));
  }
  return spots;
}

std::vector<Spot> Places::write(const Atom& atom, const ChunkRange& range, const std::vector<int>& numbers) {
  std::vector<Spot> spots;
  for (int i = 0; i < atom.count * cut_.blocks_per_chunk; ++i) {
    const Place place = place_of(atom, range, i);
    const int number = numbers.at(static_cast<std::size_t>(i));
    spots.push_back(spot_of(place, number, true));
    holds_[place] = number;
  }
  return spots;
}

Spot Places::spot_of(const Place& place, int number, bool writes) {
  const auto& [kind, block, part] = place;
  if (kind == 's' || kind == 't') return slot(place, number);
  if (kind == 'o') return {Buffer::output, block};
  if (is_put_aside(block)) return slot(place, block);
  if (cut_.in_place() == detail::InPlace::always) return {Buffer::output, block};
  const bool moved = cut_.aliased && (writes || holds_.contains(place));
  return {moved ? Buffer::output : Buffer::input, block};
}

Spot Places::slot(const Place& place, int like) {
  const auto [at, is_new] = keys_.try_emplace({place, like}, static_cast<int>(by_key_.size()));
  if (is_new) {
    by_key_.emplace_back(place, like);
    const auto& [kind, block, part] = place;
    if (kind == 'i' && starts_with_input(block)) aside_[block] = at->second;
  }
  return {Buffer::scratch, at->second};
}

/// Numbers all places in order with their first contents, so that neighbours stay neighbours, and then those with later
/// contents.
void Places::number_slots() {
  std::map<Place, int> uses;
  std::vector<std::tuple<int, Place, int>> order;  // index of the use, place, key
  for (int key = 0; key < static_cast<int>(by_key_.size()); ++key) {
    const Place& place = by_key_[static_cast<std::size_t>(key)].first;
    order.emplace_back(uses[place]++, place, key);
  }
  std::sort(order.begin(), order.end());
  slots_.resize(by_key_.size());
  for (const auto& [use, place, key] : order) {
    slots_[static_cast<std::size_t>(key)] = static_cast<int>(scratch_like_.size());
    scratch_like_.push_back(by_key_[static_cast<std::size_t>(key)].second);
  }
}

std::vector<int> Places::never_moved() const {
  std::vector<int> blocks;
  if (!cut_.aliased || cut_.in_place() == detail::InPlace::always) return blocks;
  for (int block = 0; block < cut_.blocks(); ++block)
    if (has(Buffer::input, block) && has(Buffer::output, block) && !first_write_.contains({'i', block, 0}))
      blocks.push_back(block);
  return blocks;
}

}  // namespace tutti::cli::interchange
