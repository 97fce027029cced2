#include "cli/bench/cases.h"

#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "cli/base/perform.h"
#include "lib/api/algorithm_of.h"
#include "lib/base/internals.h"
#include "tutti/error.h"
#include "tutti/gpu.h"

namespace tutti::cli::bench {
namespace {

constexpr std::size_t page = 4096;
constexpr double premul_factor = 2;  // a power of two: products stay exact

std::size_t sum_before(const std::vector<std::size_t>& counts, int end) {
  std::size_t sum = 0;
  for (int i = 0; i < end; ++i) sum += counts[static_cast<std::size_t>(i)];
  return sum;
}

Op make_op(OpKind kind) { return kind == OpKind::premul_sum ? premul_sum(premul_factor) : Op{kind}; }

}  // namespace

void Buffers::Free::operator()(std::byte* memory) const { std::free(memory); }

Buffers::Buffers(std::size_t bytes_each) : stride_((bytes_each + page) / page * page) {
  own_.reset(static_cast<std::byte*>(std::aligned_alloc(page, 2 * stride_)));
  if (own_ == nullptr)
    throw Error{ErrorCode::system, fmt::format("bench: no memory for two buffers of {} bytes; lower -e", stride_)};
  memory_ = own_.get();
  std::memset(memory_, 0, 2 * stride_);
}

Buffers::Buffers(std::size_t bytes_each, Communicator& comm) : stride_((bytes_each + page) / page * page) {
  shared_ = allocate<std::uint8_t>(comm, 2 * stride_);
  if (comm.size() > 1 && !shared_->is_shared())
    throw Error{ErrorCode::unsupported,
                "bench: -R needs ranks that share memory; these do not (TUTTI_DEBUG=INFO says why)"};
  memory_ = reinterpret_cast<std::byte*>(shared_->data());
  std::memset(memory_, 0, 2 * stride_);
}

Case::Case(Communicator& comm, const Buffers& buffers, Row row)
    : comm_(&comm),
      buffers_(&buffers),
      row_(std::move(row)),
      rank_(comm.rank()),
      ranks_(comm.size()),
      op_(make_op(row_.op.op)),
      options_{row_.algorithm, row_.timeout, buffers.on_gpu() ? buffers.on_gpu()->stream() : nullptr} {
  if (row_.what == Collective::barrier) return;
  in_place_ = placed(Placement::in_place);
  out_of_place_ = placed(Placement::out_of_place);
}

Case::Placed Case::placed(Placement placement) const {
  Placed buffers{send(placement), recv(placement)};
  if (traits().scatters() && !has(traits().input)) buffers.input = {};
  if (traits().gathers() && !has(traits().output)) buffers.output = {};
  // The API has one buffer for a broadcast; with two, the root must copy first.
  if (row_.what == Collective::broadcast && (placement == Placement::in_place || !has(traits().input)))
    buffers.input = {};
  return buffers;
}

const detail::CollectiveTraits& Case::traits() const { return row_.what.traits(); }

bool Case::has(const detail::BufferTraits& buffer) const { return buffer.is_at(rank_, row_.root); }

Reduction Case::reduction() const {
  return {!has_op(row_.what), row_.op.op, row_.op.op == OpKind::premul_sum ? premul_factor : 1};
}

Pattern Case::from(int rank, int repetition) const {
  return input_pattern(row_.type.type, reduction(), rank, ranks_, repetition);
}

// In place all data are in the receive buffer; if one buffer is a part of the other, it is this rank's part.

std::span<std::byte> Case::send(Placement placement) const {
  const std::size_t bytes = row_.shape.send_count * row_.element();
  const std::size_t skipped = row_.unalign * row_.element();
  if (placement == Placement::out_of_place) return {buffers_->send() + skipped, bytes};
  const bool own_part = traits().gathers() && has(traits().output);
  return {buffers_->recv() + skipped + (own_part ? static_cast<std::size_t>(rank_) * bytes : 0), bytes};
}

std::span<std::byte> Case::recv(Placement placement) const {
  const std::size_t bytes = row_.shape.recv_count * row_.element();
  const bool own_part = traits().scatters() && has(traits().input);
  const bool shifted = placement == Placement::in_place && own_part;
  const std::size_t skipped = row_.unalign * row_.element();
  return {buffers_->recv() + skipped + (shifted ? static_cast<std::size_t>(rank_) * bytes : 0), bytes};
}

void Case::prepare(Placement placement, int repetition) {
  if (row_.what == Collective::barrier) return;
  poison(recv(placement));
  const bool sends = row_.what == measure::send_recv || has(traits().input);
  if (sends) fill(send(placement), from(rank_, repetition), 0);
  const DeviceCopy* const device = buffers_->on_gpu();
  if (!device) return;
  device->update(recv(placement));
  if (sends) device->update(send(placement));
}

std::size_t Case::count_wrong(Placement placement, int repetition) const {
  if (const DeviceCopy* const device = buffers_->on_gpu()) device->fetch(recv(placement));
  const std::span<const std::byte> output = recv(placement);
  const auto me = static_cast<std::size_t>(rank_);
  const auto wrong = [&](const Pattern& pattern, std::size_t first) {
    return bench::count_wrong(output, pattern, first);
  };
  if (row_.what == measure::send_recv) return wrong(from((rank_ + ranks_ - 1) % ranks_, repetition), 0);
  if (!has(traits().output)) return 0;
  const std::size_t first = traits().scatters() ? me * row_.shape.count : 0;
  if (traits().reduces()) {
    const int folded = traits().folded(rank_, ranks_);
    return wrong(result_pattern(row_.type.type, reduction(), folded, ranks_, repetition), first);
  }
  if (traits().output.extent == detail::Extent::parts) return wrong_blocks(output, repetition);
  return wrong(from(row_.root, repetition), first);
}

/// The output is one block from each rank: all of its data, or its data for this rank.
std::size_t Case::wrong_blocks(std::span<const std::byte> output, int repetition) const {
  std::size_t wrong = 0;
  std::size_t begin = 0;
  for (int peer = 0; peer < ranks_; ++peer) {
    std::size_t count = row_.shape.count;
    std::size_t first = 0;  // of the block in the sender's buffer
    if (row_.what == Collective::all_to_all) first = static_cast<std::size_t>(rank_) * count;
    if (row_.what == measure::all_to_all_v) {
      count = row_.shape.recv_counts[static_cast<std::size_t>(peer)];
      const std::size_t size = row_.shape.count * static_cast<std::size_t>(ranks_) * row_.element();
      first = sum_before(shape_of(row_.what, size, row_.element(), peer, ranks_).send_counts, rank_);
    }
    const std::size_t bytes = count * row_.element();
    wrong += bench::count_wrong(output.subspan(begin, bytes), from(peer, repetition), first);
    begin += bytes;
  }
  return wrong;
}

void Case::copy_before_broadcast(const Placed& buffers) const {
  if (const DeviceCopy* const device = buffers_->on_gpu())
    device->move(buffers.output, buffers.input);
  else
    std::memcpy(buffers.output.data(), buffers.input.data(), buffers.input.size());
}

template <class Work>
void Case::with_arguments(const Work& work) const {
  const DeviceCopy* const device = buffers_->on_gpu();
  with_type(row_.type.type, [&](auto zero) {
    using T = decltype(zero);
    if (device)
      work([device](std::span<std::byte> bytes) {
        return gpu::span(reinterpret_cast<T*>(device->place_of(bytes.data())), bytes.size() / sizeof(T));
      });
    else
      work([](std::span<std::byte> bytes) {
        return std::span<T>{reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
      });
  });
}

void Case::call(Placement placement) {
  if (row_.what == Collective::barrier) return comm_->barrier(options_);
  with_arguments([&](const auto& as_argument) { call_with(placement, as_argument); });
}

std::string Case::chosen_algorithm() const {
  if (row_.what == measure::send_recv) return {};
  if (row_.what == Collective::barrier) return comm_->chosen_algorithm(Collective::barrier, 0);
  std::string name;
  with_arguments([&](const auto& as_argument) {
    const auto output = as_argument(out_of_place_.output);
    detail::Request request =
        request_of(row_.what.collective, as_argument(out_of_place_.input), output, op_, row_.root, {});
    if (row_.what == measure::all_to_all_v) {
      request.variable = true;
      request.counts = row_.shape.send_counts;
      request.recv_counts = row_.shape.recv_counts;
    }
    name = detail::algorithm_of(detail::Internals::state(*comm_), request, detail::memory_of<decltype(output)>);
  });
  return name;
}

template <class AsArgument>
void Case::call_with(Placement placement, const AsArgument& as_argument) {
  const bool in_place = placement == Placement::in_place;
  const Placed& buffers = in_place ? in_place_ : out_of_place_;
  const auto input = as_argument(buffers.input);
  const auto output = as_argument(buffers.output);
  if (row_.what == measure::send_recv) return exchange(input, output);
  if (row_.what == measure::all_to_all_v)
    return comm_->all_to_all_v(input, row_.shape.send_counts, output, row_.shape.recv_counts, options_);
  if (row_.what == Collective::broadcast && !buffers.input.empty()) copy_before_broadcast(buffers);
  const bool is_one_buffer = in_place && !traits().has_parts();
  perform(*comm_, row_.what.collective, is_one_buffer ? output : input, output, op_, row_.root, options_);
}

/// Sends to the next rank and receives from the previous one at the same time.
template <class Data>
void Case::exchange(Data input, Data output) {
  const MessageOptions options{0, row_.timeout, options_.stream};
  const int next = (rank_ + 1) % ranks_;
  const int previous = (rank_ + ranks_ - 1) % ranks_;
  if (options_.stream == nullptr) {
    comm_->sendrecv(input, next, output, previous, options);
    return;
  }
  Work sending = comm_->isend(input, next, options);
  comm_->recv(output, previous, options);
  sending.wait();
}

}  // namespace tutti::cli::bench
