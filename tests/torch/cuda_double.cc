// The device "cuda" for a PyTorch that was built without CUDA: allocator, streams, events and copies by way of NVIDIA's
// driver, which in tests is the model of tests/support/fake_cuda. So the backend meets tensors, streams and futures of
// a GPU where there is none. It has one device, and of PyTorch's kernels those that move elements.
//
// Memory that is freed is given to the next tensor of its size at once, as PyTorch does, unless it was recorded on a
// stream; then once the stream has done what it had.

#include <ATen/native/TensorFactories.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pybind11/functional.h>
#include <torch/extension.h>

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/context.h"
#include "lib/base/gpu/driver.h"
#include "lib/base/gpu/memory.h"
#include "tests/gpu/graphs.h"
#include "tests/gpu/program_calls.h"

namespace {

namespace cuda = tutti::cuda;
using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
using c10::StreamId;
using tutti::testing::CapturedGraph;
using tutti::testing::program_calls;

const Device gpu{c10::DeviceType::CUDA, 0};
constexpr StreamId pool = 32;

/// When it is first used: a rank is a child of the test, and must not inherit a driver.
cuda::Context context() {
  static const auto& primary = *new cuda::PrimaryContext{0};
  return primary.get();
}

// ---- Streams and events

thread_local StreamId current = 0;  // 0 is the default stream

cuda::Stream handle_of(StreamId id) {
  static auto& streams = *new std::vector<cuda::OwnStream>;
  static std::mutex mutex;
  if (id == 0) return nullptr;
  const std::lock_guard lock{mutex};
  while (static_cast<StreamId>(streams.size()) < id) streams.emplace_back(context());
  return streams[static_cast<std::size_t>(id - 1)].get();
}

Stream stream_of(StreamId id) { return Stream{Stream::UNSAFE, gpu, id}; }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  Device exchangeDevice(Device) const override { return gpu; }
  Device getDevice() const override { return gpu; }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  DeviceIndex deviceCount() const noexcept override { return 1; }
  Stream getStream(Device) const override { return stream_of(current); }
  Stream getDefaultStream(Device) const override { return stream_of(0); }
  Stream getStreamFromGlobalPool(Device, bool) const override {
    static std::atomic<StreamId> next{0};
    return stream_of(1 + next++ % pool);
  }
  Stream exchangeStream(Stream stream) const override { return stream_of(std::exchange(current, stream.id())); }
  void* getStreamNativeHandle(const Stream stream) const override { return handle_of(stream.id()); }

  bool isStreamCapturing(const Stream& stream) const override {
    return static_cast<bool>(cuda::capture_of(handle_of(stream.id())));
  }

  void record(void** event, const Stream& stream, const DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new cuda::OwnEvent{context()};
    const cuda::Current here{context()};
    cuda::driver().cuEventRecord(static_cast<cuda::OwnEvent*>(*event)->get(), handle_of(stream.id()));
  }
  void block(void* event, const Stream& stream) const override {
    if (event == nullptr) return;
    const cuda::Current here{context()};
    cuda::driver().cuStreamWaitEvent(handle_of(stream.id()), static_cast<cuda::OwnEvent*>(event)->get(), 0);
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || static_cast<cuda::OwnEvent*>(event)->done();
  }
  void synchronizeEvent(void* event) const override {
    const cuda::Current here{context()};
    const cuda::Result result = program_calls().cuEventSynchronize(static_cast<cuda::OwnEvent*>(event)->get());
    if (result != cuda::Result::success) cuda::fail("cuEventSynchronize", result);
  }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override {
    delete static_cast<cuda::OwnEvent*>(event);
  }
  void synchronizeStream(const Stream& stream) const override {
    const cuda::Current here{context()};
    cuda::driver().cuStreamSynchronize(handle_of(stream.id()));
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const Stream& stream) const override;
};

// ---- Memory

struct Block {
  cuda::DeviceMemory memory;
  std::set<StreamId> users{};
  std::list<cuda::OwnEvent> awaited{};
};

class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const std::lock_guard lock{mutex_};
    auto* const block = bytes > 0 ? take(bytes) : nullptr;
    void* const data = block ? reinterpret_cast<void*>(block->memory.address()) : nullptr;
    return {data, block, [](void* freed) { memory().put_back(static_cast<Block*>(freed)); }, gpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override { TORCH_CHECK(false, "not needed"); }
  void record(Block* block, StreamId user) {
    const std::lock_guard lock{mutex_};
    block->users.insert(user);
  }
  static Memory& memory() {
    static auto& memory = *new Memory;
    return memory;
  }

 private:
  Block* take(std::size_t bytes) {
    for (auto block = free_.begin(); block != free_.end(); ++block) {
      std::erase_if((*block)->awaited, [](const cuda::OwnEvent& event) { return event.done(); });
      if ((*block)->memory.size() != bytes || !(*block)->awaited.empty()) continue;
      Block* const taken = *block;
      free_.erase(block);
      return taken;
    }
    const cuda::Current here{context()};
    return new Block{cuda::DeviceMemory{bytes}};
  }
  void put_back(Block* block) {
    if (block == nullptr) return;
    const cuda::Current here{context()};
    const std::lock_guard lock{mutex_};
    for (const StreamId user : std::exchange(block->users, {})) {
      block->awaited.emplace_back(context());
      cuda::driver().cuEventRecord(block->awaited.back().get(), handle_of(user));
    }
    free_.push_front(block);
  }

  std::mutex mutex_;
  std::list<Block*> free_;
};

void Guard::recordDataPtrOnStream(const c10::DataPtr& memory, const Stream& stream) const {
  if (memory.get_context()) Memory::memory().record(static_cast<Block*>(memory.get_context()), stream.id());
}

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

// ---- Kernels

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &Memory::memory(), c10::DispatchKeySet{c10::DispatchKey::CUDA},
                                   type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &Memory::memory(), c10::DispatchKeySet{c10::DispatchKey::CUDA},
                                           type.value_or(at::kFloat));
}

/// Where each element lies, in bytes from the first.
std::vector<std::int64_t> places_of(const at::Tensor& tensor) {
  std::vector<std::int64_t> places{0};
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    std::vector<std::int64_t> wider;
    for (const std::int64_t place : places)
      for (std::int64_t i = 0; i < tensor.size(dim); ++i)
        wider.push_back(place + i * tensor.stride(dim) * static_cast<std::int64_t>(tensor.element_size()));
    places = std::move(wider);
  }
  return places;
}

cuda::Address address_of(const at::Tensor& tensor) { return cuda::address_of(tensor.const_data_ptr()); }

/// In the order of the current stream. As PyTorch does, it waits where one of them is memory of the host, but not for
/// the kernel that then puts elements into their places on the device.
at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool) {
  TORCH_CHECK(to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes(), "the double copies like to like");
  if (to.numel() == 0) return to;
  if (to.is_cuda() && !from.is_cuda() && !to.is_contiguous()) {
    at::Tensor piece = at::empty(to.sizes(), to.options());
    Memory::memory().record(static_cast<Block*>(piece.storage().data_ptr().get_context()), current);
    return copy(to, copy(piece, from, false), false);
  }
  cuda::Commands commands{context(), handle_of(current)};
  if (to.is_contiguous() && from.is_contiguous()) {
    commands.copy(address_of(to), address_of(from), to.nbytes());
  } else {
    const auto targets = places_of(to), sources = places_of(from);
    for (std::size_t i = 0; i < targets.size(); ++i)
      commands.copy(address_of(to) + static_cast<cuda::Address>(targets[i]),
                    address_of(from) + static_cast<cuda::Address>(sources[i]), to.element_size());
  }
  if (!to.is_cuda() || !from.is_cuda()) cuda::driver().cuStreamSynchronize(commands.stream());
  return to;
}

at::Tensor cat(const at::ITensorListRef& tensors, std::int64_t dim) {
  TORCH_CHECK(dim == 0, "the double joins flat tensors");
  std::int64_t all = 0;
  for (const at::Tensor& tensor : tensors) all += tensor.numel();
  const at::Tensor joined = at::empty({all}, tensors.front().options());
  std::int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    joined.narrow(0, begin, tensor.numel()).copy_(tensor);
    begin += tensor.numel();
  }
  return joined;
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("copy_", copy);
  m.impl("cat", cat);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("_reshape_alias", at::native::_reshape_alias);
}

// ---- Graphs

/// What `body` gives to the current stream, and to those that come after it.
CapturedGraph captured(const std::function<void()>& body) {
  const cuda::Current here{context()};
  return {handle_of(current), cuda::CaptureMode::global, body};
}

void launch(const CapturedGraph& graph) {
  const cuda::Current here{context()};
  graph.launch(handle_of(current));
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  pybind11::class_<CapturedGraph>(m, "Graph").def(pybind11::init(&captured)).def("launch", &launch);
  m.def("why_not", [] { return cuda::why_not(); });
  m.def("empty", [](const std::vector<std::int64_t>& size, const at::Tensor& like) {
    return at::empty(size, like.options().device(gpu));
  });
  m.def("set_stream", [](StreamId id) { return std::exchange(current, id); });
}
