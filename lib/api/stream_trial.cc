// The trial of the links between GPUs: each rank sends some elements to each other one that shares memory with it, and
// looks at what it gets. Staged links need no more than what was tried before: waits that the host ends, and a
// transport.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "algorithms/catalogue.h"
#include "lib/api/stream_calls.h"
#include "lib/base/index.h"
#include "lib/collective/binding.h"
#include "lib/collective/stream_binding.h"
#include "lib/gpu/pinned_memory.h"
#include "lib/group/group.h"

namespace tutti::detail {
namespace {

constexpr std::size_t count_per_rank = 64;
using Element = std::uint32_t;

Element element(int from, int to, std::size_t i) {
  return static_cast<Element>(from) * 1'000'003 + static_cast<Element>(to) * 4099 + static_cast<Element>(i);
}

bool has_passed(cuda::Stream stream) {
  const cuda::Result result = cuda::driver().cuStreamQuery.result(stream);
  if (result != cuda::Result::success && result != cuda::Result::not_ready) cuda::fail("cuStreamQuery", result);
  return result == cuda::Result::success;
}

}  // namespace

/// A plan of the ranks that share memory, in whose commands they have their numbers in the group.
StreamCalls::Lowered StreamCalls::lower_trial(cuda::Address memory) {
  const std::vector<int>& ranks = links_->form().sharing;
  const auto n = static_cast<int>(ranks.size());
  const auto own = static_cast<int>(std::ranges::find(ranks, group_.rank()) - ranks.begin());
  const std::size_t bytes = count_per_rank * ranks.size() * sizeof(Element);
  const algorithms::Choice pairwise = algorithms::find(Collective::all_to_all, "pairwise");
  const algorithms::Shape shape{.rank = own, .ranks = n};
  const std::vector<algorithms::Plan> plans = algorithms::plans_of_all(pairwise, shape);
  const auto cuts = Partition::of(Collective::all_to_all, count_per_rank, n, 1, sizeof(Element));
  const algorithms::StreamSizes sizes = stream_sizes(cuts, cuts, shape, sizeof(Element));
  const auto units = algorithms::StreamUnits::of(Collective::all_to_all, plans);
  const algorithms::StreamProgram program{
      Collective::all_to_all, plans[at(own)], units, sizes, {}, slots_of(links_->form(), sizeof(Element))};
  Lowered made{.offsets = {},
               .commands = {},
               .staged = {},
               .after = counters_,
               .areas = {memory, memory + bytes, memory_->scratch.get(device_, program.scratch() * sizeof(Element))},
               .arithmetic = {nullptr, DataType::u32, OpKind::sum, sizeof(Element), sizeof(Element)}};
  algorithms::StreamCounters counters{n};
  for (std::size_t round = 0; round < program.rounds(); ++round) program.add_round(round, counters, made.commands);
  for (algorithms::StreamCommand& command : made.commands.all)
    if (command.peer >= 0) command.peer = ranks[at(command.peer)];
  for (algorithms::StreamPlace& place : made.commands.places)
    if (place.peer >= 0) place.peer = ranks[at(place.peer)];
  for (int i = 0; i < n; ++i) {
    made.after.sent[at(ranks[at(i)])] = counters.sent[at(i)];
    made.after.received[at(ranks[at(i)])] = counters.received[at(i)];
  }
  return made;
}

/// Lets a stream run to its end, whatever it waits for.
bool StreamCalls::drain(cuda::Stream stream) {
  for (const auto end = Clock::now() + longest_drain; Clock::now() < end; std::this_thread::sleep_for(drain_pause)) {
    if (cuda::driver().cuStreamQuery.result(stream) != cuda::Result::not_ready) return true;
    links_->end_waits();
  }
  return false;
}

bool StreamCalls::try_links(std::chrono::milliseconds limit) {
  const cuda::KnowsOfCapture knows;
  const std::lock_guard lock{mutex_};
  const cuda::Current current{context_.get()};
  const std::vector<int>& ranks = links_->form().sharing;
  const std::size_t bytes = count_per_rank * ranks.size() * sizeof(Element);
  auto host = std::make_unique<PinnedMemory>(PinnedMemory::take(bytes));
  auto* const elements = reinterpret_cast<Element*>(host->data());
  for (std::size_t to = 0; to < ranks.size(); ++to)
    for (std::size_t i = 0; i < count_per_rank; ++i)
      elements[to * count_per_rank + i] = element(group_.rank(), ranks[to], i);

  const Lowered lowered = lower_trial(memory_->packed.input.get(device_, 2 * bytes));
  counters_ = lowered.after;
  const cuda::OwnStream stream{context_.get()};
  try {
    cuda::Commands to{context_.get(), stream.get()};
    to.fill(links_->tickets(), 0, transport::StreamLinks::Form::tickets_bytes);
    to.copy(lowered.areas.input, cuda::address_of(elements), bytes);
    StreamLowering{*links_, lowered.areas, lowered.arithmetic, to}.add(lowered.commands);
    to.copy(cuda::address_of(elements), lowered.areas.output, bytes);
    const auto end = Clock::now() + limit;
    while (!has_passed(stream.get())) {
      if (Clock::now() >= end) throw Error{ErrorCode::timeout, "a trial of the links between GPUs took too long"};
      std::this_thread::yield();
    }
  } catch (...) {
    if (!drain(stream.get())) {  // it may go on using all of it
      (void)host.release();
      flight_->call_breaks();
    }
    throw;
  }
  for (std::size_t from = 0; from < ranks.size(); ++from)
    for (std::size_t i = 0; i < count_per_rank; ++i)
      if (elements[from * count_per_rank + i] != element(ranks[from], group_.rank(), i)) return false;
  return true;
}

}  // namespace tutti::detail
