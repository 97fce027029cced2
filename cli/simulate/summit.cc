// The curves that made double binary trees known: all_reduce on up to 24,576 GPUs of Summit, published by Jeaugey,
// "Massively Scale Your Deep Learning Training with NCCL 2.4" (NVIDIA, 4 February 2019), beside the same plans
// simulated.

#include "cli/simulate/summit.h"

#include <fmt/core.h>

#include <cmath>

namespace tutti::cli::simulate {
namespace {

constexpr std::size_t small_message = 8;
constexpr std::size_t large_message = 64 << 20;
constexpr const char* ring = "ring";
constexpr const char* tree = "tree_of_chains:6";
// Half a megabyte down each tree at a time, as in NCCL.
constexpr const char* tree_in_slices = "tree_of_chains:6/1M";

std::vector<Job> jobs_for(const NetworkFile& file, const char* algorithm, std::size_t bytes, int most_ranks) {
  const algorithms::Choice choice = algorithms::find(Collective::all_reduce, algorithm);
  std::vector<Job> jobs;
  for (const Published& point : published)
    if (point.ranks <= most_ranks)
      jobs.push_back(
          {{Collective::all_reduce, settled(choice, point.ranks, bytes), point.ranks, 0, bytes, nullptr, algorithm},
           file.for_algorithm(choice.entry->name)});
  return jobs;
}

/// Runs several lists of jobs as one, and splits the results.
std::vector<std::vector<Timed>> run_lists(const std::vector<std::vector<Job>>& lists, const Told& tell) {
  std::vector<Job> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  const std::vector<Timed> timed = simulate_all(all, tell);
  std::vector<std::vector<Timed>> found;
  auto at = timed.begin();
  for (const auto& list : lists) {
    const auto end = at + static_cast<std::ptrdiff_t>(list.size());
    found.emplace_back(at, end);
    at = end;
  }
  return found;
}

/// "+3.1%"
std::string distance(double is, double should) { return fmt::format("{:+.1f}%", (is / should - 1) * 100); }

}  // namespace

const std::array<Published, 9> published{{
    {96, 178e-6, 128e-6, 19.0e9, 19.8e9},
    {192, 356e-6, 140e-6, 17.8e9, 16.4e9},
    {384, 655e-6, 156e-6, 13.1e9, 15.4e9},
    {768, 1313e-6, 169e-6, 7.4e9, 15.2e9},
    {1536, 2700e-6, 180e-6, 7.0e9, 14.3e9},
    {3072, 5475e-6, 199e-6, 6.1e9, 13.7e9},
    {6144, 10540e-6, 208e-6, 4.2e9, 12.0e9},
    {12288, 21900e-6, 228e-6, 3.0e9, 12.6e9},
    {24576, 45200e-6, 249e-6, 1.8e9, 12.8e9},
}};

SummitLatency summit_latency(int most_ranks, const Told& tell) {
  const NetworkFile fitted = NetworkFile::open("summit");
  const NetworkFile physical = NetworkFile::open("summit-physical");
  auto found = run_lists(
      {jobs_for(fitted, ring, small_message, most_ranks), jobs_for(fitted, tree, small_message, most_ranks),
       jobs_for(physical, ring, small_message, most_ranks), jobs_for(physical, tree, small_message, most_ranks)},
      tell);
  return {std::move(found[0]), std::move(found[1]), std::move(found[2]), std::move(found[3])};
}

SummitBandwidth summit_bandwidth(int most_ranks, const Told& tell) {
  const NetworkFile fitted = NetworkFile::open("summit");
  auto found = run_lists(
      {jobs_for(fitted, ring, large_message, most_ranks), jobs_for(fitted, tree_in_slices, large_message, most_ranks)},
      tell);
  return {std::move(found[0]), std::move(found[1])};
}

std::string to_text(const SummitLatency& found) {
  std::string text =
      "all_reduce of 8 bytes on Summit, microseconds: published (NCCL 2.3 ring, 2.4 tree)\n"
      "beside the same plans simulated with constants fitted to these curves.\n\n"
      "  GPUs |  ring: publ.  simul.        | tree: publ. simul.        | ring/tree: publ. simul.\n";
  for (std::size_t i = 0; i < found.ring.size(); ++i) {
    const Published& point = published[i];
    const double ring_time = found.ring[i].result.seconds, tree_time = found.tree[i].result.seconds;
    text +=
        fmt::format("{:>6} | {:>12.0f} {:>7.0f} {:>7} | {:>10.0f} {:>6.0f} {:>7} | {:>15.1f} {:>6.1f}\n", point.ranks,
                    point.ring * 1e6, ring_time * 1e6, distance(ring_time, point.ring), point.tree * 1e6,
                    tree_time * 1e6, distance(tree_time, point.tree), point.ring / point.tree, ring_time / tree_time);
  }
  text +=
      "\nThe same plans with physical latencies only (one set of hop latencies for both, nothing\n"
      "fitted): what the hardware alone would give, not what was measured.\n\n"
      "  GPUs |   ring us   tree us   ring/tree\n";
  for (std::size_t i = 0; i < found.physical_ring.size(); ++i) {
    const double ring_time = found.physical_ring[i].result.seconds, tree_time = found.physical_tree[i].result.seconds;
    text += fmt::format("{:>6} | {:>9.0f} {:>9.1f} {:>11.1f}\n", published[i].ranks, ring_time * 1e6, tree_time * 1e6,
                        ring_time / tree_time);
  }
  text +=
      "\nOften quoted as \"ring 180 ms, tree 1 ms\". The source does not say that: what it calls 180x\n"
      "is the ratio. Its plot shows about 45 ms and 0.25 ms for 8 bytes on 24,576 GPUs.\n"
      "  Sylvain Jeaugey, Massively Scale Your Deep Learning Training with NCCL 2.4, NVIDIA\n"
      "  Developer Blog, 4 February 2019. Values read off its plots, within 2 % (rates 1 %).\n";
  return text;
}

std::string to_text(const SummitBandwidth& found) {
  std::string text =
      "all_reduce of 64 MiB on Summit, bus bandwidth in GB/s, published beside simulated:\n\n"
      "  GPUs |  ring: publ.  simul.        | tree: publ. simul.\n";
  double most[2] = {0, 0};
  for (std::size_t i = 0; i < found.ring.size(); ++i) {
    const Published& point = published[i];
    const double rates[2] = {bus_bandwidth(found.ring[i]), bus_bandwidth(found.tree[i])};
    text += fmt::format("{:>6} | {:>12.1f} {:>7.1f} {:>7} | {:>10.1f} {:>6.1f} {:>7}\n", point.ranks,
                        point.ring_bandwidth * 1e-9, rates[0] * 1e-9, distance(rates[0], point.ring_bandwidth),
                        point.tree_bandwidth * 1e-9, rates[1] * 1e-9, distance(rates[1], point.tree_bandwidth));
    most[0] = std::max(most[0], std::abs(rates[0] / point.ring_bandwidth - 1));
    most[1] = std::max(most[1], std::abs(rates[1] / point.tree_bandwidth - 1));
  }
  text += fmt::format(
      "\nFarthest from the published curve: ring {:.0f} %, tree {:.0f} %. Nothing here was fitted to the tree's "
      "rates;\n"
      "the source says that bandwidth \"degrades a bit when we cross L3 switches\", which this model\n"
      "leaves out. The knee of the ring is where its messages fall below 128 KiB and NCCL changes protocol.\n",
      most[0] * 100, most[1] * 100);
  return text;
}

}  // namespace tutti::cli::simulate
