// Ranks whose kernels use each other's memory: allocated, registered and copied. Each result has the bits of the same
// call on host memory.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <tutti/gpu.h>
#include <tutti/gpu_memory.h>
#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/compute/gpu/image.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/on_device.h"
#include "tests/support/fake_cuda/control.h"
#include "tests/support/scratch.h"

namespace {

namespace cuda = tutti::cuda;
namespace gpu = tutti::gpu;
using tutti::Communicator;
using tutti::ErrorCode;
using tutti::testing::context;
using tutti::testing::has_gpu;
using tutti::testing::on_ranks;
using tutti::testing::OnDevice;
using tutti::testing::same_bits;
using tutti::testing::Setting;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

bool is_thread() { return !std::getenv("TUTTI_RANK"); }
bool has_kernels() { return !tutti::compute::gpu::image().empty(); }

std::vector<float> data_of(int rank, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = 0.1f * static_cast<float>((i * 7 + at(rank) * 13) % 1000) + 1e-6f;
  return data;
}

void put(gpu::Span<float> to, const std::vector<float>& from) {
  const cuda::OwnStream stream{context()};
  cuda::Commands commands{context(), stream.get()};
  commands.copy(cuda::address_of(to.data()), cuda::address_of(from.data()), from.size() * sizeof(float));
  cuda::driver().cuStreamSynchronize(stream.get());
}

std::vector<float> get(gpu::Span<float> from) {
  std::vector<float> content(from.size());
  const cuda::OwnStream stream{context()};
  cuda::Commands commands{context(), stream.get()};
  commands.copy(cuda::address_of(content.data()), cuda::address_of(from.data()), content.size() * sizeof(float));
  cuda::driver().cuStreamSynchronize(stream.get());
  return content;
}

/// What the fake driver of this process has run and copied; 0 on a real one.
struct Work {
  std::uint64_t kernels = 0, bytes = 0;
};
Work work_so_far() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto count = [&](const char* name) {
    const auto function = reinterpret_cast<std::uint64_t (*)()>(library ? ::dlsym(library, name) : nullptr);
    return function ? function() : 0;
  };
  return {count("fake_cuda_kernels_run"), count("fake_cuda_bytes_copied")};
}

/// Makes this thread's calls in the context of its GPU, as a program does.
struct Current {
  cuda::Current current{context()};
};

ErrorCode code_of(const std::function<void()>& call, std::string& text) {
  try {
    call();
  } catch (const tutti::Error& error) {
    text = error.what();
    return error.code();
  }
  text = "no error";
  return ErrorCode::system;
}

/// Every collective that can run by tasks, from one memory to another, and in place where that may be.
void check_all(Communicator& comm, gpu::Span<float> in, gpu::Span<float> out, std::size_t count) {
  const std::size_t n = at(comm.size()), all = n * count;
  const int last = comm.size() - 1;
  const auto part = [](gpu::Span<float> of, std::size_t begin, std::size_t elements) {
    return gpu::Span<float>{of.data() + begin, elements};
  };
  const std::vector<float> own = data_of(comm.rank(), all);
  // `make(calls, in, out)` on host memory, and on the GPU.
  const auto compare = [&](const char* what, std::size_t given, std::size_t taken, bool gets, const auto& make) {
    std::vector<float> from(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(given)), expected(taken, -1);
    make(std::span<float>{from}, std::span<float>{expected}, nullptr);
    put(in, own);
    put(out, std::vector<float>(all, -1));
    make(part(in, 0, given), part(out, 0, taken), nullptr);
    INFO(std::string{what}, " on rank ", comm.rank(), " of ", comm.size());
    if (gets) CHECK(same_bits(get(part(out, 0, taken)), expected));
    CHECK(same_bits(get(part(in, 0, given)), from));
  };
  const tutti::CallOptions direct{.algorithm = "direct"};
  for (const tutti::Op& op : {tutti::Op{tutti::sum}, tutti::Op{tutti::avg}, tutti::premul_sum(0.3)}) {
    if (!has_kernels()) break;
    compare("all_reduce", all, all, true,
            [&](auto from, auto to, auto) { comm.all_reduce(from, to, op, {.algorithm = "direct_two_shot"}); });
    compare("all_reduce", all, all, true, [&](auto from, auto to, auto) { comm.all_reduce(from, to, op, direct); });
    compare("reduce", all, all, comm.rank() == last,
            [&](auto from, auto to, auto) { comm.reduce(from, to, op, last, direct); });
    compare("reduce_scatter", all, count, true,
            [&](auto from, auto to, auto) { comm.reduce_scatter(from, to, op, direct); });
    for (const char* algorithm : {"direct", "direct_two_shot"}) {
      std::vector<float> expected = own;
      comm.all_reduce(expected, op, {.algorithm = algorithm});
      put(in, own);
      comm.all_reduce(part(in, 0, all), op, {.algorithm = algorithm});
      CHECK(same_bits(get(part(in, 0, all)), expected));
    }
  }
  compare("all_gather", count, all, true, [&](auto from, auto to, auto) { comm.all_gather(from, to, direct); });
  compare("gather", count, all, comm.rank() == last,
          [&](auto from, auto to, auto) { comm.gather(from, to, last, direct); });
  compare("scatter", all, count, true, [&](auto from, auto to, auto) { comm.scatter(from, to, last, direct); });
  compare("all_to_all", all, all, true, [&](auto from, auto to, auto) { comm.all_to_all(from, to, direct); });
  std::vector<float> expected = own;
  comm.broadcast(expected, last, direct);
  put(in, own);
  comm.broadcast(part(in, 0, all), last, direct);
  CHECK(same_bits(get(part(in, 0, all)), expected));
}

constexpr const char* modes[] = {"leader", "one-shot", "two-shot"};

TEST_CASE("windows: collectives with memory that was allocated, registered, or is copied") {
  if (!has_gpu() || is_thread()) return;
  constexpr std::size_t count = 3001;
  for (const char* mode : modes) {
    const Setting setting{"TUTTI_GPU_MODE", mode};
    on_ranks(3, [&](Communicator& comm) {
      const Current current;
      const std::size_t all = count * at(comm.size());
      auto in = gpu::allocate<float>(comm, all + 64), out = gpu::allocate<float>(comm, all + 64);
      CHECK(in.is_shared());
      CHECK(out.size() == all + 64);
      INFO("mode ", std::string{mode});
      check_all(comm, in.span(), out.span(), count);
      check_all(comm, {in.data() + 16, all}, {out.data() + 4, all}, count);  // the same offset on all ranks

      const OnDevice<float> own{std::vector<float>(2 * all + 100)};
      const auto begin = at(comm.rank() + 1) * 8;  // where a rank likes
      gpu::Registration registered = gpu::register_memory(comm, own.part(begin, 2 * all + 10));
      CHECK(registered.is_shared());
      check_all(comm, own.part(begin, all), own.part(begin + all + 8, all), count);
      check_all(comm, own.part(begin, all), out.span(), count);  // one in each kind of memory
      const OnDevice<float> copied{std::vector<float>(all)};
      check_all(comm, copied.span(), out.span(), count);
      check_all(comm, own.part(begin, all), copied.span(), count);
      gpu::deregister_memory(comm, std::move(registered));
      check_all(comm, own.part(begin, all), own.part(begin + all + 8, all), count);
    });
  }
}

TEST_CASE("windows: a leader runs one kernel, and nobody copies") {
  if (!has_gpu() || is_thread() || !has_kernels()) return;
  const Setting setting{"TUTTI_GPU_MODE", "leader"};
  on_ranks(3, [](Communicator& comm) {
    const Current current;
    auto in = gpu::allocate<float>(comm, 5000), out = gpu::allocate<float>(comm, 5000);
    int devices = 0;
    cuda::driver().cuDeviceGetCount(&devices);
    const auto made = [&](const auto& call) {
      const Work before = work_so_far();
      call();
      const Work after = work_so_far();
      return Work{after.kernels - before.kernels, after.bytes - before.bytes};
    };
    const Work one = made([&] { comm.all_reduce(in.span(), out.span(), tutti::sum); });
    const bool leads = devices > 1 || comm.rank() == 0;
    CHECK(one.kernels == (leads && work_so_far().kernels > 0 ? 1 : 0));
    CHECK(one.bytes == 0);
    const Work in_place = made([&] { comm.all_reduce(in.span(), tutti::sum); });
    CHECK(in_place.bytes == (devices > 1 ? 5000 * sizeof(float) : 0));  // of the input, which others still read
    const OnDevice<float> copied{std::vector<float>(5000)};
    const Work staged = made([&] { comm.all_reduce(copied.span(), tutti::sum); });
    CHECK(staged.bytes >= (leads ? 0 : 2 * 5000 * sizeof(float)));
    comm.barrier();
  });
}

TEST_CASE("windows: memory that is let go while calls are on their way") {
  if (!has_gpu() || is_thread() || !has_kernels()) return;
  const Setting setting{"TUTTI_GPU_MODE", "leader"};
  std::optional<gpu::Array<float>> outlives;
  on_ranks(3, [&](Communicator& comm) {
    const Current current;
    const cuda::OwnStream stream{context()};
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<tutti::Work> works;
      {
        auto data = gpu::allocate<float>(comm, 2000), result = gpu::allocate<float>(comm, 2000);
        put(data.span(), data_of(comm.rank(), 2000));
        for (int call = 0; call < 3; ++call)
          works.push_back(comm.async().all_reduce(data.span(), result.span(), tutti::sum, {.stream = stream.get()}));
      }
      tutti::wait_all(works);
    }
    outlives.emplace(gpu::allocate<float>(comm, 100));
    comm.all_reduce(outlives->span(), tutti::sum);
    comm.barrier();
  });
  if (outlives) CHECK(get(outlives->span()).size() == 100);
}

TEST_CASE("windows: memory of cuMemCreate, and two pieces of one allocation") {
  if (!has_gpu() || is_thread() || !has_kernels()) return;
  const Setting setting{"TUTTI_GPU_MODE", "two-shot"};
  on_ranks(3, [](Communicator& comm) {
    const Current current;
    const auto virtual_memory = cuda::SharedMemory::create(cuda::device_of(context()), 100'000);
    auto* const data = reinterpret_cast<float*>(virtual_memory.address());
    auto one = gpu::register_memory(comm, gpu::span(data, 1000));
    auto other = gpu::register_memory(comm, gpu::span(data + 2000, 1000));
    CHECK(one.is_shared());
    CHECK(other.is_shared());
    put({data, 1000}, data_of(comm.rank(), 1000));
    std::vector<float> expected = data_of(comm.rank(), 1000);
    comm.all_reduce(expected, tutti::sum, {.algorithm = "direct"});
    comm.all_reduce(gpu::span(data, 1000), gpu::span(data + 2000, 1000), tutti::sum);
    CHECK(same_bits(get({data + 2000, 1000}), expected));
    gpu::deregister_memory(comm, std::move(one));
    comm.all_reduce(gpu::span(data, 1000), gpu::span(data + 2000, 1000), tutti::sum);
    CHECK(same_bits(get({data + 2000, 1000}), expected));
    gpu::deregister_memory(comm, std::move(other));
    comm.barrier();
  });
}

TEST_CASE("windows: memory that was freed is not taken for what is at its address now") {
  if (!has_gpu() || is_thread() || !has_kernels()) return;
  const Setting setting{"TUTTI_GPU_MODE", "two-shot"};
  on_ranks(3, [](Communicator& comm) {
    const Current current;
    std::string text;
    std::optional<cuda::DeviceMemory> memory{std::in_place, 4000};
    const cuda::Address address = memory->address();
    auto registered = gpu::register_memory(comm, gpu::span(reinterpret_cast<float*>(address), 1000));
    comm.all_reduce(gpu::span(reinterpret_cast<float*>(address), 1000), tutti::sum);
    // The program frees it on all ranks too early, once nobody has it open.
    gpu::deregister_memory(comm, std::move(registered));
    memory.reset();
    memory.emplace(4000);
    auto again = gpu::register_memory(comm, gpu::span(reinterpret_cast<float*>(memory->address()), 1000));
    const std::vector<float> own = data_of(comm.rank(), 1000);
    std::vector<float> expected = own;
    put({reinterpret_cast<float*>(memory->address()), 1000}, own);
    comm.all_reduce(expected, tutti::sum, {.algorithm = "direct"});
    comm.all_reduce(gpu::span(reinterpret_cast<float*>(memory->address()), 1000), tutti::sum);
    CHECK(same_bits(get({reinterpret_cast<float*>(memory->address()), 1000}), expected));
    gpu::deregister_memory(comm, std::move(again));
    comm.barrier();
  });
}

TEST_CASE("windows: what is wrong is said on the ranks that are wrong") {
  if (!has_gpu() || is_thread() || !has_kernels()) return;
  const Setting setting{"TUTTI_GPU_MODE", "two-shot"};
  std::string text;
  on_ranks(3, [&](Communicator& comm) {
    const Current current;
    // Never freed: after a failure nobody can say when the others have closed it.
    const auto& data = *new OnDevice<float>{std::vector<float>(1000)};
    auto registered = gpu::register_memory(comm, data.part(0, 500));
    // One rank overlaps; the others are told that the memory is not shared.
    const bool wrong = comm.rank() == 1;
    const OnDevice<float> more{std::vector<float>(1000)};
    std::optional<gpu::Registration> second;
    const auto code = code_of(
        [&] { second.emplace(gpu::register_memory(comm, (wrong ? data : more).part(wrong ? 400 : 0, 500))); }, text);
    if (wrong) {
      CHECK(code == ErrorCode::invalid_argument);
      CHECK(text.find("which are registered or allocated for this communicator: register memory once") != text.npos);
    } else {
      REQUIRE(second);
      CHECK_FALSE(second->is_shared());
    }
    CHECK(code_of([&] { (void)gpu::register_memory(comm, data.part(600, at(comm.rank()) + 1)); }, text) ==
          ErrorCode::mismatch);
    CHECK(text.find("give all ranks the same count") != text.npos);
    CHECK(code_of([&] { (void)gpu::register_memory(comm, data.part(600, 5000)); }, text) ==
          ErrorCode::invalid_argument);
    CHECK(text.find("reach beyond their allocation") != text.npos);
    CHECK(code_of([&] { (void)gpu::register_memory(comm, gpu::Span<float>{}); }, text) == ErrorCode::invalid_argument);
    comm.barrier();
    // The last call of this communicator.
    const std::size_t offset = comm.rank() == 2 ? 8 : 0;
    const auto said = code_of([&] { comm.all_reduce(data.part(offset, 400), tutti::sum); }, text);
    CHECK(said == ErrorCode::mismatch);
    CHECK(text.find("parts of the same memory at the same offset") != text.npos);
  });
  on_ranks(3, [&](Communicator& comm) {
    const Setting other{"TUTTI_GPU_MODE", comm.rank() == 2 ? "leader" : "two-shot"};
    const OnDevice<float> data{std::vector<float>(100)};
    CHECK(code_of([&] { comm.all_reduce(data.span(), tutti::sum); }, text) == ErrorCode::mismatch);
    CHECK(text == "TUTTI_GPU_MODE is two-shot on rank 0 and leader on rank 2: give all ranks the same");
  });
}

TEST_CASE("windows: memory that was freed while it is registered is refused") {
  if (!has_gpu() || !is_thread() || !has_kernels()) return;  // threads open nothing, which a free would hurt
  const Setting setting{"TUTTI_GPU_MODE", "two-shot"};
  std::string text;
  tutti::run_threads(2, [&](Communicator& comm) {
    const Current current;
    std::optional<cuda::DeviceMemory> memory{std::in_place, 4000};
    auto* const data = reinterpret_cast<float*>(memory->address());
    auto registered = gpu::register_memory(comm, gpu::span(data, 1000));
    comm.barrier();
    memory.reset();
    comm.barrier();
    std::vector<std::unique_ptr<cuda::DeviceMemory>> others;  // until one has the address
    for (int i = 0; i < 8; ++i) others.push_back(std::make_unique<cuda::DeviceMemory>(4000));
    comm.barrier();
    const bool is_there = cuda::facts_of(cuda::address_of(data)).kind == cuda::PointerFacts::Kind::device;
    std::string own;
    CHECK(code_of([&] { comm.all_reduce(gpu::span(data, 1000), tutti::sum); }, own) == ErrorCode::invalid_argument);
    if (is_there) CHECK(own.find("was registered, and has been freed since") != own.npos);
    comm.barrier();
  });
}

}  // namespace
