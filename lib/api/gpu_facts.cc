#include "lib/api/gpu_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>

#include "lib/base/environment.h"
#include "lib/base/gpu/context.h"
#include "lib/base/topology.h"
#include "lib/compute/gpu/image.h"
#include "lib/gpu/device_stream.h"

namespace tutti::detail {
namespace {

constexpr std::size_t usual_slot_bytes = std::size_t{1} << 20;

std::size_t wanted_slot_bytes() {
  return environment::number("TUTTI_GPU_SLOT_BYTES").value_or(usual_slot_bytes) / 256 * 256;
}

}  // namespace

GpuMode wanted_mode() { return static_cast<GpuMode>(environment::word("TUTTI_GPU_MODE").value_or(0)); }

GpuFacts facts_of_own(const DeviceStream& stream, int host) {
  GpuFacts own{.mode = wanted_mode(),
               .has_kernels = !compute::gpu::image().empty(),
               .names_gpu = stream.is_named(),
               .host = host,
               .slot_bytes = wanted_slot_bytes()};
  std::string why_not;
  try {
    (void)stream.context();  // which may fail, and is used later
    const cuda::DeviceFacts facts = cuda::facts_of(stream.device());
    own.uuid = facts.uuid;
    own.shares_by_descriptors = facts.virtual_memory;
    if (!facts.memory_operations || !stream.can_wait_for_host())
      why_not = "its streams cannot wait for words of the host";
  } catch (const std::exception& error) {
    why_not = error.what();
  }
  std::memcpy(own.why_not, why_not.data(), std::min(why_not.size(), sizeof own.why_not - 1));
  return own;
}

bool GpusOfRanks::can_decide() const {
  return std::ranges::any_of(all_, [](const GpuFacts& one) { return one.mode == GpuMode::staged; }) ||
         std::ranges::all_of(all_, &GpuFacts::names_gpu);
}

GpuMode GpusOfRanks::mode() const {
  std::vector<GpuMode> modes;
  std::ranges::transform(all_, std::back_inserter(modes), &GpuFacts::mode);
  return agreed_mode(modes);
}

std::string GpusOfRanks::why_staged() const {
  const GpuMode agreed = mode();
  for (int rank = 0; rank < ranks(); ++rank)
    if (of(rank).mode == GpuMode::staged) return fmt::format("TUTTI_GPU_MODE of rank {} says so", rank);
  for (int rank = 0; rank < ranks(); ++rank)
    if (of(rank).why_not[0] != 0) return fmt::format("rank {}: {}", rank, of(rank).why_not);
  if (shares_memory(agreed) && ranks() > most_sharing)
    return fmt::format("{} ranks are more than a kernel has inputs ({})", ranks(), most_sharing);
  if (shares_memory(agreed) && !are_on_one_host()) return "its ranks do not all share memory";
  if (agreed == GpuMode::kernel)
    if (const auto [rank, other] = two_on_a_gpu(); rank >= 0)
      return fmt::format("ranks {} and {} share a GPU, where a kernel that waits keeps out the one it waits for", other,
                         rank);
  if (agreed != GpuMode::automatic || (are_on_one_host() && ranks() <= most_sharing)) return {};
  if (const auto [rank, other] = two_on_a_gpu(); rank >= 0)
    return fmt::format("ranks {} and {} share a GPU, which would alternate between them", other, rank);
  for (int rank = 0; rank < ranks(); ++rank)
    if (of(rank).host != rank) return {};
  return "no two ranks share memory, so that all bytes go through the host anyway";
}

bool GpusOfRanks::are_on_one_host() const {
  return std::ranges::all_of(all_, [&](const GpuFacts& one) { return one.host == all_.front().host; });
}

bool GpusOfRanks::have_kernels() const { return std::ranges::all_of(all_, &GpuFacts::has_kernels); }

bool GpusOfRanks::share_by_descriptors() const { return std::ranges::all_of(all_, &GpuFacts::shares_by_descriptors); }

std::pair<int, int> GpusOfRanks::two_on_a_gpu() const {
  const std::vector<int> first = first_on_gpu();
  for (int rank = 0; rank < ranks(); ++rank)
    if (const int other = first[static_cast<std::size_t>(rank)]; other != rank) return {rank, other};
  return {-1, -1};
}

std::vector<int> GpusOfRanks::first_on_gpu() const {
  std::vector<int> first;
  for (const GpuFacts& one : all_)
    first.push_back(static_cast<int>(std::ranges::find(all_, one.uuid, &GpuFacts::uuid) - all_.begin()));
  return first;
}

std::vector<int> GpusOfRanks::ranks_of_host(int host) const {
  std::vector<int> found;
  for (int rank = 0; rank < ranks(); ++rank)
    if (of(rank).host == host) found.push_back(rank);
  return found;
}

int GpusOfRanks::ranks_on_each_host() const {
  std::vector<int> hosts;
  std::ranges::transform(all_, std::back_inserter(hosts), &GpuFacts::host);
  return tutti::ranks_on_each_host(hosts);
}

}  // namespace tutti::detail
