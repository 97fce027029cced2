// Memory that is registered, freed, registered again and deregistered, in right and in wrong ways.

#include <doctest/doctest.h>
#include <tutti/gpu.h>
#include <tutti/gpu_memory.h>
#include <tutti/tutti.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/base/internals.h"
#include "lib/group/context.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/expandable_segment.h"
#include "tests/gpu/host_memory.h"
#include "tests/gpu/on_device.h"
#include "tests/gpu/windows.h"
#include "tests/support/scratch.h"

namespace {

using namespace std::chrono_literals;
namespace cuda = tutti::cuda;
namespace gpu = tutti::gpu;
using tutti::at;
using tutti::Communicator;
using tutti::ErrorCode;
using tutti::testing::code_of;
using tutti::testing::context;
using tutti::testing::counted;
using tutti::testing::Current;
using tutti::testing::data_of;
using tutti::testing::get;
using tutti::testing::has_gpu;
using tutti::testing::has_kernels;
using tutti::testing::HostMemory;
using tutti::testing::is_thread;
using tutti::testing::may_have_windows;
using tutti::testing::on_ranks;
using tutti::testing::OnDevice;
using tutti::testing::put;
using tutti::testing::same_bits;
using tutti::testing::Setting;

constexpr int registering_ranks = 3;

bool has_fake() { return counted("fake_cuda_calls") > 0; }
int imports() { return static_cast<int>(counted("fake_cuda_imports")); }
int imports_mapped() { return static_cast<int>(counted("fake_cuda_imports_mapped")); }

gpu::Span<float> span_at(cuda::Address address, std::size_t count) {
  return gpu::span(reinterpret_cast<float*>(address), count);
}

/// Whether a sum of these elements of all ranks is right.
void check_sum(Communicator& comm, gpu::Span<float> in, gpu::Span<float> out) {
  const std::vector<float> own = data_of(comm.rank(), in.size());
  std::vector<float> expected = own;
  comm.all_reduce(expected, tutti::sum, {.algorithm = "direct"});
  put(in, own);
  comm.all_reduce(in, out, tutti::sum);
  CHECK(same_bits(get(out), expected));
}

TEST_CASE("windows: what cannot be deregistered stays as it is, and all ranks are told") {
  if (!may_have_windows()) return;
  const Setting setting{"TUTTI_GPU_MODE", "two-shot"};
  on_ranks(registering_ranks, [](Communicator& comm) {
    const Current current;
    const OnDevice<float> data{std::vector<float>(2000)}, more{std::vector<float>(1000)};
    auto first = gpu::register_memory(comm, data.part(0, 2000)), second = gpu::register_memory(comm, more.span());
    std::string text;
    const auto refused = [&](Communicator& by, gpu::Registration& given, ErrorCode code, const std::string& why) {
      CHECK(code_of([&] { gpu::deregister_memory(by, std::move(given)); }, text) == code);
      INFO(text);
      CHECK(text.find(why) != text.npos);
      CHECK(first.is_shared());
      CHECK(second.is_shared());
      check_sum(comm, data.part(0, 1000), data.part(1000, 1000));
    };
    // One rank gives one that was moved from, which is empty, or one of another communicator.
    const auto take = [](gpu::Registration& from) { return gpu::Registration{std::move(from)}; };
    const auto deregister = [&comm](gpu::Registration& given) { gpu::deregister_memory(comm, std::move(given)); };
    gpu::Registration moved = take(second);
    const bool wrong = comm.rank() == 1;
    gpu::Registration& kept = moved;
    CHECK(code_of([&] { deregister(wrong ? second : kept); }, text) ==
          (wrong ? ErrorCode::invalid_argument : ErrorCode::mismatch));
    CHECK(text.find(wrong ? "the registration is empty: it was moved from, or deregistered before"
                          : "rank 1 cannot deregister what it gave; it says why") != text.npos);
    second = std::move(moved);
    Communicator other = comm.split(0);
    refused(other, first, ErrorCode::invalid_argument, "the registration belongs to another communicator");
    refused(comm, wrong ? second : first, ErrorCode::mismatch,
            "let all ranks deregister what they registered together");
    deregister(first);
    CHECK_FALSE(first.is_shared());
    CHECK(code_of([&] { deregister(first); }, text) == ErrorCode::invalid_argument);
    gpu::deregister_memory(comm, std::move(second));
    if (has_fake()) CHECK(imports_mapped() > 0);  // of the slots
    check_sum(comm, data.part(0, 1000), data.part(1000, 1000));
    // The memory is nobody's any more, so it can be freed here: the model of the driver ends a program that frees what
    // others have open.
  });
}

TEST_CASE("windows: what outlives its communicator has let go of other ranks' memory") {
  if (!may_have_windows()) return;
  const Setting setting{"TUTTI_GPU_MODE", "two-shot"};
  on_ranks(registering_ranks, [](Communicator& comm) {
    const Current current;
    const int before = imports_mapped();
    const OnDevice<float> data{std::vector<float>(1000)};
    std::optional<gpu::Registration> registered, dropped;
    std::optional<gpu::Array<float>> array;
    const OnDevice<float> more{std::vector<float>(1000)};
    {
      Communicator other = comm.split(0);
      registered.emplace(gpu::register_memory(other, data.span()));
      dropped.emplace(gpu::register_memory(other, more.span()));
      array.emplace(gpu::allocate<float>(other, 1000));
      check_sum(other, data.span(), array->span());
      // Destroyed by all, it is no longer in a window, and is copied.
      const int mapped = imports_mapped();
      dropped.reset();
      CHECK(imports_mapped() == mapped);  // a destructor closes nothing, since that waits for streams
      check_sum(other, more.span(), array->span());
    }
    CHECK(imports_mapped() == before);
    comm.barrier();
    put(array->span(), data_of(comm.rank(), 1000));
    CHECK(same_bits(get(array->span()), data_of(comm.rank(), 1000)));
    std::string text;
    CHECK(code_of([&] { gpu::deregister_memory(comm, std::move(*registered)); }, text) == ErrorCode::invalid_argument);
    CHECK(text.find("belongs to another communicator") != text.npos);
  });
}

TEST_CASE("windows: an array that was destroyed is given back by the next one") {
  if (!may_have_windows()) return;
  const Setting setting{"TUTTI_GPU_MODE", "two-shot"};
  on_ranks(registering_ranks, [](Communicator& comm) {
    const Current current;
    int mapped = 0;
    for (int turn = 0; turn < 4; ++turn) {
      auto data = gpu::allocate<float>(comm, 1000);
      check_sum(comm, data.span(), data.span());
      if (turn == 0) mapped = imports_mapped();
      CHECK(imports_mapped() == mapped);
    }
    comm.barrier();
  });
}

TEST_CASE("windows: pieces of one allocation are opened once, and one that came after it anew") {
  if (!may_have_windows()) return;
  const Setting setting{"TUTTI_GPU_MODE", "two-shot"};
  on_ranks(registering_ranks, [](Communicator& comm) {
    const Current current;
    const OnDevice<float> any{std::vector<float>(8)};
    comm.all_reduce(any.span(), tutti::sum);  // sets up
    const int others = has_fake() ? registering_ranks - 1 : 0;
    int before = imports();
    const auto opened = [&] { return imports() - std::exchange(before, imports()); };
    const auto check = [&](cuda::Address at, int first) {
      auto one = gpu::register_memory(comm, span_at(at, 1000));
      CHECK(one.is_shared());
      CHECK(opened() == first);
      auto other = gpu::register_memory(comm, span_at(at + 8000, 1000));
      CHECK(other.is_shared());
      CHECK(opened() == 0);
      check_sum(comm, span_at(at, 1000), span_at(at + 8000, 1000));
      gpu::deregister_memory(comm, std::move(one));
      check_sum(comm, span_at(at, 1000), span_at(at + 8000, 1000));
      // In a registration in part only: copied.
      check_sum(comm, span_at(at + 6000, 1000), span_at(at + 40000, 1000));
      check_sum(comm, span_at(at + 8400, 900), span_at(at + 8400, 900));  // within it
      const int mapped = imports_mapped();
      gpu::deregister_memory(comm, std::move(other));
      CHECK(imports_mapped() == mapped - others);
    };
    std::optional<cuda::DeviceMemory> memory{std::in_place, 100'000};
    const cuda::Address first = memory->address();
    check(first, others);
    memory.reset();  // nobody has it open
    memory.emplace(100'000);
    if (has_fake()) CHECK(memory->address() == first);
    check(memory->address(), others);
    const auto virtual_memory = cuda::SharedMemory::create(cuda::device_of(context()), 100'000);
    before = imports();
    const cuda::Address address = virtual_memory.address();
    auto one = gpu::register_memory(comm, span_at(address, 1000));
    CHECK(opened() == others);
    auto other = gpu::register_memory(comm, span_at(address + 8000, 1000));
    CHECK(one.is_shared());
    CHECK(other.is_shared());
    CHECK(opened() == 0);
    check_sum(comm, span_at(address, 1000), span_at(address + 8000, 1000));
    gpu::deregister_memory(comm, std::move(one));
    check_sum(comm, span_at(address, 1000), span_at(address + 8000, 1000));
    gpu::deregister_memory(comm, std::move(other));
    comm.barrier();
  });
}

TEST_CASE("windows: tensors in segments of a framework's allocator") {
  if (!may_have_windows()) return;
  const Setting setting{"TUTTI_GPU_MODE", "two-shot"};
  on_ranks(registering_ranks, [](Communicator& comm) {
    using tutti::testing::ExpandableSegment;
    const Current current;
    const cuda::Device device = cuda::device_of(context());
    const ExpandableSegment shared{device, 2, cuda::HandleType::posix_file_descriptor};
    const ExpandableSegment local{device, 2, cuda::HandleType::none};
    std::string text;
    // Within a piece, at another place of it on each rank.
    const cuda::Address own = shared.address() + shared.piece() + 512 * (at(comm.rank()) + 1);
    auto registered = gpu::register_memory(comm, span_at(own, 1000));
    CHECK(registered.is_shared());
    check_sum(comm, span_at(own, 1000), span_at(own, 1000));
    gpu::deregister_memory(comm, std::move(registered));
    // From one piece to the next, each of which other processes would have to import.
    CHECK(code_of([&] { (void)gpu::register_memory(comm, span_at(shared.address() + shared.piece() - 2000, 1000)); },
                  text) == ErrorCode::invalid_argument);
    CHECK(text.find("4000 bytes from") != text.npos);
    CHECK(text.find("reach beyond their allocation") != text.npos);
    // One rank's memory has no descriptor, so nobody's is shared, and calls copy.
    const bool lacks = comm.rank() == 1;
    auto refused = gpu::register_memory(comm, span_at(lacks ? local.address() : own, 1000));
    CHECK_FALSE(refused.is_shared());
    check_sum(comm, span_at(lacks ? local.address() : own, 1000), span_at(own, 1000));
    gpu::deregister_memory(comm, std::move(refused));
    comm.barrier();
  });
}

TEST_CASE("windows: what is wrong is said on the ranks that are wrong") {
  if (!may_have_windows()) return;
  const Setting setting{"TUTTI_GPU_MODE", "two-shot"};
  std::string text;
  on_ranks(3, [&](Communicator& comm) {
    const Current current;
    // Never freed: after a failure nobody can say when the others have closed it.
    const auto& data = *new OnDevice<float>{std::vector<float>(1000)};
    auto registered = gpu::register_memory(comm, data.part(0, 500));
    // One rank overlaps, and the others are told.
    const bool wrong = comm.rank() == 1;
    const OnDevice<float> more{std::vector<float>(1000)};
    const auto code =
        code_of([&] { (void)gpu::register_memory(comm, (wrong ? data : more).part(wrong ? 400 : 0, 500)); }, text);
    CHECK(code == (wrong ? ErrorCode::invalid_argument : ErrorCode::mismatch));
    CHECK(text.find(wrong ? "which are registered or allocated for this communicator: register memory once"
                          : "rank 1 cannot register its memory; it says why") != text.npos);
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
    INFO(text);
    CHECK(said == ErrorCode::mismatch);
    CHECK(text.find("memory at the same offset") != text.npos);
  });
  on_ranks(3, [&](Communicator& comm) {
    const Setting other{"TUTTI_GPU_MODE", comm.rank() == 2 ? "leader" : "two-shot"};
    const OnDevice<float> data{std::vector<float>(100)};
    CHECK(code_of([&] { comm.all_reduce(data.span(), tutti::sum); }, text) == ErrorCode::mismatch);
    CHECK(text == "TUTTI_GPU_MODE is two-shot on rank 0 and leader on rank 2: give all ranks the same");
  });
}

TEST_CASE("windows: memory that was freed while it is registered is refused, also if other memory is there now") {
  if (!has_gpu() || !is_thread() || !has_kernels()) return;  // threads open nothing, which a free would hurt
  const Setting setting{"TUTTI_GPU_MODE", "two-shot"};
  std::mutex turns;
  tutti::run_threads(2, [&](Communicator& comm) {
    const Current current;
    std::optional<cuda::DeviceMemory> memory{std::in_place, 4000};
    const cuda::Address address = memory->address();
    auto registered = gpu::register_memory(comm, span_at(address, 1000));
    comm.barrier();
    {
      const std::lock_guard turn{turns};
      memory.reset();
      memory.emplace(4000);
    }
    comm.barrier();
    // A real driver may have taken another address.
    if (has_fake()) CHECK(memory->address() == address);
    std::string text;
    const bool is_there = memory->address() == address;
    const std::string why =
        is_there ? "was registered, and has been freed since: deregister memory before it is freed" : "";
    CHECK(code_of([&] { comm.all_reduce(span_at(address, 1000), tutti::sum); }, text) == ErrorCode::invalid_argument);
    CHECK(text.find(why) != text.npos);
    if (is_there) {
      CHECK(code_of([&] { (void)gpu::register_memory(comm, span_at(address, 1000)); }, text) ==
            ErrorCode::invalid_argument);
      CHECK(text.find(why) != text.npos);
      gpu::deregister_memory(comm, std::move(registered));
      gpu::deregister_memory(comm, gpu::register_memory(comm, span_at(address, 1000)));
    }
    comm.barrier();
  });
}

TEST_CASE("windows: memory of calls that are on their way stays registered, and can be deregistered later") {
  if (!has_gpu() || !is_thread() || !has_kernels()) return;
  const Setting setting{"TUTTI_GPU_MODE", "two-shot"};
  constexpr std::size_t n = 2;
  const Current of_all;
  const std::array<cuda::OwnStream, n> streams{cuda::OwnStream{context()}, cuda::OwnStream{context()}};
  const HostMemory gate{sizeof(std::uint64_t)};
  *reinterpret_cast<std::uint64_t*>(gate.data()) = 0;
  const std::array<OnDevice<float>, n> data{OnDevice<float>{std::vector<float>(1000)},
                                            OnDevice<float>{std::vector<float>(1000)}};
  tutti::run_threads(n, [&](Communicator& comm) {
    const Current current;
    const cuda::Stream stream = streams[at(comm.rank())].get();
    auto registered = gpu::register_memory(comm, data[at(comm.rank())].span());
    CHECK(registered.is_shared());
    if (comm.rank() == 0) {
      cuda::Commands commands{context(), stream};
      commands.wait(gate.address(), 1);
      commands.flush();
    }
    tutti::Work work = comm.async().all_reduce(data[at(comm.rank())].span(), tutti::sum,
                                               {.timeout = std::chrono::minutes{1}, .stream = stream});
    comm.barrier();
    std::chrono::milliseconds& limit = tutti::detail::Internals::state(comm)->group.context().timeout;
    const std::chrono::milliseconds usual = std::exchange(limit, 2s);  // for this wait only
    std::string text;
    CHECK(code_of([&] { gpu::deregister_memory(comm, std::move(registered)); }, text) == ErrorCode::timeout);
    limit = usual;
    INFO(text);
    CHECK(text.find("still on their way") != text.npos);
    CHECK(registered.is_shared());
    comm.barrier();
    std::atomic_ref{*reinterpret_cast<std::uint64_t*>(gate.data())} = 1;
    gpu::deregister_memory(comm, std::move(registered));
    work.wait();
    comm.barrier();
  });
}

}  // namespace
