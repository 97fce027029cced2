// Every collective on device memory, by every algorithm, for every element type and op, in place and not, for awkward
// rank counts, lengths and parts: each result has the bits of the same call on host memory, and nothing else is
// written. Runs as 8 processes (ranks.py), which form groups. GPU_MATRIX says what the driver and the environment make
// of calls: "staged" or "streams", which the test checks.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <tutti/gpu.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/catalogue.h"
#include "lib/compute/gpu/image.h"
#include "lib/compute/kernels.h"
#include "tests/gpu/device_cells.h"
#include "tests/support/fake_cuda/control.h"
#include "tests/support/sample.h"
#include "tests/support/scratch.h"

namespace tutti::testing {
namespace {

/// Kernels that ran on this process's fake GPUs; none on a real driver, which does not count.
std::optional<std::uint64_t> kernels_run() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto count =
      library ? reinterpret_cast<decltype(&fake_cuda_kernels_run)>(::dlsym(library, "fake_cuda_kernels_run")) : nullptr;
  return count ? std::optional{count()} : std::nullopt;
}

std::string text_of(const DeviceCell& cell, DataType type) {
  constexpr const char* ways[] = {"", " two at once", " prepared"};
  constexpr const char* parts[] = {"", "_v", "_v with gaps"};
  return std::string{name_of(cell.collective)} + parts[static_cast<int>(cell.parts)] + " " + cell.algorithm + " " +
         name_of(type) + " " + name_of(cell.op) + " count " + std::to_string(cell.count) +
         (cell.in_place ? " in place" : "") + ways[static_cast<int>(cell.way)] + " root " + std::to_string(cell.root);
}

/// The cells of one group of ranks. Groups of one size share them.
class GroupCells {
 public:
  /// `share` of `shares`: which of the groups of this size.
  GroupCells(Communicator& comm, unsigned share, unsigned shares) : comm_(comm), share_(share), shares_(shares) {
    const char* const set = std::getenv("GPU_MATRIX_PART");
    const auto part = static_cast<unsigned>(set ? std::atoi(set) : 0);
    const auto n = static_cast<unsigned>(comm.size());
    constexpr unsigned variants = 10;  // of the environment, which share the cells: see meson.build
    choices_.seed(sample_seed(n * variants + part) * 16 + share);
    if (only_a_sample())
      one_in_ = (sanitized ? 8 : 1) * 150 * n;  // many ranks take longer
    else if (set)
      share_ = share * variants + part, shares_ = shares * variants;
  }

  void run() {
    for (const algorithms::Entry& entry : algorithms::catalogue()) {
      if (entry.collective == Collective::barrier) continue;  // has no memory
      for (const char* parameters : {"", ":3", "*2", ":3*2"}) {
        const std::string_view wanted{parameters};
        if (wanted.find(':') != wanted.npos && !entry.has_radix) continue;
        if (wanted.find('*') != wanted.npos && !entry.has_pipeline) continue;
        run_types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t, std::int64_t,
                  std::uint64_t, bool, f16, bf16, float, double, std::complex<float>, std::complex<double>>(
            entry, std::string{entry.name} + parameters);
      }
    }
  }

  long ran() const { return ran_; }
  long whole() const { return whole_; }
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  struct Draw {
    unsigned asked = 0, drawn = 0;
  };

  /// The same on all ranks of the group. Reductions have many more cells than what only moves elements.
  bool draws(bool reduces) {
    const bool is_own = whole_++ % shares_ == share_;
    if (!is_own) return false;
    Draw& draw = reduces ? reducing_ : moving_;
    const unsigned one_in = reduces ? one_in_ : std::max(1u, one_in_ / 8);
    if (draw.asked % one_in == 0) draw.drawn = static_cast<unsigned>(choices_() % one_in);
    return draw.asked++ % one_in == draw.drawn;
  }

  template <class... Types>
  void run_types(const algorithms::Entry& entry, const std::string& algorithm) {
    (run_type<Types>(entry, algorithm), ...);
  }

  template <class T>
  void run_type(const algorithms::Entry& entry, const std::string& algorithm) {
    const detail::CollectiveTraits& traits = detail::traits_of(entry.collective);
    const auto n = static_cast<std::size_t>(comm_.size());
    // The last one has several rounds with slots of 4 KiB.
    const std::size_t part = 2 * 4096 / sizeof(T) + 3;
    const std::size_t counts[] = {0, 1, n - 1, 7, 1000, traits.has_parts() ? part : part * n};
    DeviceCells<T> cells{comm_, fields_};
    DeviceCell cell{.collective = entry.collective, .algorithm = algorithm};
    for (int kind = 0; kind < (traits.reduces() ? static_cast<int>(OpKind::user) : 1); ++kind) {
      cell.op = static_cast<OpKind>(kind);
      if (traits.reduces() && (!traits.takes(cell.op) || !compute::supports(data_type_of<T>, cell.op))) continue;
      for (const std::size_t count : counts)
        for (const bool in_place : {false, true})
          for (const Parts parts : {Parts::equal, Parts::packed, Parts::apart}) {
            const bool variable = parts != Parts::equal;
            if (variable && (!traits.has_parts() || entry.equal_parts || (in_place && traits.exchanges()))) continue;
            if (!in_place && traits.in_place == detail::InPlace::always) continue;
            if (!draws(traits.reduces())) continue;
            cell.count = count, cell.in_place = in_place, cell.parts = parts;
            const unsigned choice = cell.seed = static_cast<unsigned>(choices_());
            cell.root = static_cast<int>(choice / 8 % n);
            cell.way = static_cast<Way>(choice / 256 % 3);
            cell.bare = choice / 1024 % 2 == 0;
            tell(cell, data_type_of<T>, cells.run(cell));
          }
    }
  }

  void tell(const DeviceCell& cell, DataType type, const std::string& wrong) {
    ++ran_;
    if (!wrong.empty() && failures_.size() < 20)
      failures_.push_back(text_of(cell, type) + " rank " + std::to_string(comm_.rank()) + " of " +
                          std::to_string(comm_.size()) + ": " + wrong);
  }

  Communicator& comm_;
  Fields fields_;
  unsigned share_, shares_;
  unsigned one_in_ = 1;
  std::mt19937 choices_;
  Draw reducing_, moving_;
  long ran_ = 0;
  long whole_ = 0;
  std::vector<std::string> failures_;
};

/// How the ranks form groups that run at the same time.
const std::vector<std::vector<int>> layouts{{8}, {5, 3}, {2, 2, 2, 2}};

struct Tally {
  long ran = 0, whole = 0;
};

Tally run_layout(Communicator& world, const std::vector<int>& sizes) {
  int group = 0, before = 0;
  while (before + sizes[static_cast<std::size_t>(group)] <= world.rank())
    before += sizes[static_cast<std::size_t>(group++)];
  const int size = sizes[static_cast<std::size_t>(group)];
  const auto shares = static_cast<unsigned>(std::count(sizes.begin(), sizes.end(), size));
  const unsigned share = static_cast<unsigned>(group) % shares;
  Communicator comm = world.split(group);
  // A first call without elements does not show which GPU is whose.
  comm.all_reduce(gpu::Span<float>{}, sum);
  GroupCells cells{comm, share, shares};
  cells.run();
  for (const std::string& failure : cells.failures()) FAIL_CHECK(failure);
  const bool counts = comm.rank() == 0;
  long sums[]{counts ? cells.ran() : 0, counts && share == 0 ? cells.whole() : 0};
  world.all_reduce(sums, sum);
  return {sums[0], sums[1]};
}

TEST_CASE("calls on device memory have the bits of those on host memory, cell by cell") {
  REQUIRE_MESSAGE(gpu::available(), gpu::why_not());
  const char* const wanted = std::getenv("GPU_MATRIX");
  const bool on_streams = std::string{wanted ? wanted : "streams"} == "streams";
  const Folder folder;
  const Setting level{"TUTTI_DEBUG", "INFO"}, what{"TUTTI_DEBUG_SUBSYS", "SHM"},
      file{"TUTTI_DEBUG_FILE", folder.name + "/log"};
  Tally all;
  {
    Communicator world = connect();
    REQUIRE(world.size() == 8);
    const std::optional<std::uint64_t> kernels_before = kernels_run();
    for (const std::vector<int>& sizes : layouts) {
      const Tally tally = run_layout(world, sizes);
      all.ran += tally.ran, all.whole += tally.whole;
    }
    if (kernels_before) {
      std::uint64_t ran = *kernels_run() - *kernels_before;
      world.all_reduce(std::span{&ran, 1}, sum);
      CHECK((ran > 0) == (on_streams && !compute::gpu::image().empty()));
    }
    if (world.rank() == 0) std::printf("%s: %ld of %ld cells\n", on_streams ? "streams" : "staged", all.ran, all.whole);
  }
  CHECK(all.ran > 0);
  std::ifstream log{folder.name + "/log"};
  const std::string said{std::istreambuf_iterator<char>{log}, {}};
  INFO(said);
  CHECK((said.find("calls on device memory run on streams") != std::string::npos) == on_streams);
  CHECK((said.find("calls on device memory are staged") != std::string::npos) == !on_streams);
}

}  // namespace
}  // namespace tutti::testing
