#include "lib/base/gpu/memory.h"

#include <algorithm>
#include <array>

#include "lib/base/gpu/context.h"

namespace tutti::cuda {
namespace {

KnownContext current() {
  Context context = nullptr;
  driver().cuCtxGetCurrent(&context);
  if (context == nullptr) fail("cuCtxGetCurrent", Result::invalid_context);
  return KnownContext{context};
}

/// Calls `action` in `context`, if that still exists and this is not a child of fork().
template <class Action>
void release_in(const KnownContext& context, Action action) noexcept {
  if (!context.exists()) return;
  const Driver& call = driver();
  if (call.cuCtxPushCurrent.result(context.get()) != Result::success) return;
  {
    const KnowsOfCapture knows;
    action(call);
  }
  Context popped = nullptr;
  (void)call.cuCtxPopCurrent.result(&popped);
}

AllocationProperties shareable(Device device) {
  AllocationProperties wanted{};
  wanted.type = allocation_pinned;
  wanted.requested_handle_types = HandleType::posix_file_descriptor;
  wanted.location = {location_device, device};
  return wanted;
}

}  // namespace

PointerFacts facts_of(Address address) {
  unsigned memory_type = 0;  // 0 for an address that the driver does not know
  unsigned managed = 0;
  int device = -1;
  unsigned legacy = 0;
  std::uint64_t handle_types = 0;
  PointerFacts facts;
  // The driver writes 0 into those that it does not know for this address, and answers success.
  std::array<std::pair<PointerAttribute, void*>, 9> asked{{{PointerAttribute::context, &facts.context},
                                                           {PointerAttribute::memory_type, &memory_type},
                                                           {PointerAttribute::buffer_id, &facts.buffer},
                                                           {PointerAttribute::is_managed, &managed},
                                                           {PointerAttribute::device_ordinal, &device},
                                                           {PointerAttribute::is_legacy_ipc_capable, &legacy},
                                                           {PointerAttribute::range_start, &facts.base},
                                                           {PointerAttribute::range_size, &facts.size},
                                                           {PointerAttribute::allowed_handle_types, &handle_types}}};
  std::array<PointerAttribute, asked.size()> attributes;
  std::array<void*, asked.size()> answers;
  std::ranges::transform(asked, attributes.begin(), [](const auto& one) { return one.first; });
  std::ranges::transform(asked, answers.begin(), [](const auto& one) { return one.second; });
  driver().cuPointerGetAttributes(static_cast<unsigned>(asked.size()), attributes.data(), answers.data(), address);

  using Kind = PointerFacts::Kind;
  if (managed != 0)
    facts.kind = Kind::managed;
  else if (memory_type == memory_type_host)
    facts.kind = Kind::host;
  else if (memory_type == memory_type_device)
    facts.kind = Kind::device;
  if (facts.kind == Kind::unknown) return {};
  facts.device = device;
  facts.legacy_ipc = (legacy & 0xff) != 0;  // the driver writes one byte
  facts.descriptor = (handle_types & static_cast<std::uint64_t>(HandleType::posix_file_descriptor)) != 0;
  return facts;
}

bool ask_whether_device_memory(const void* pointer) noexcept {
  if (!driver_is_loaded()) {
    memory_of_host.add(pointer);
    return false;
  }
  try {
    if (!available()) return false;
    return facts_of(address_of(pointer)).kind == PointerFacts::Kind::device;
  } catch (...) {
    return false;
  }
}

/// Delegates, so that its destructor releases what it has if a later call throws.
RegisteredMemory::RegisteredMemory(void* data, std::size_t size) : RegisteredMemory() {
  context_ = current();
  const KnowsOfCapture knows;
  driver().cuMemHostRegister(data, size, host_portable | host_mapped);
  data_ = data;
  driver().cuMemHostGetDevicePointer(&address_, data, 0);
}

RegisteredMemory& RegisteredMemory::operator=(RegisteredMemory&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(data_, other.data_);
  std::swap(address_, other.address_);
  return *this;
}

RegisteredMemory::~RegisteredMemory() {
  if (data_ != nullptr) release_in(context_, [&](const Driver& call) { (void)call.cuMemHostUnregister.result(data_); });
}

DeviceMemory::DeviceMemory(std::size_t size) : context_(current()), size_(size) {
  const KnowsOfCapture knows;
  driver().cuMemAlloc(&address_, size);
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (address_ != 0) release_in(context_, [&](const Driver& call) { (void)call.cuMemFree.result(address_); });
}

SharedMemory SharedMemory::create(Device device, std::size_t size) {
  const AllocationProperties wanted = shareable(device);
  std::size_t granularity = 0;
  driver().cuMemGetAllocationGranularity(&granularity, &wanted, granularity_minimum);
  SharedMemory made;
  made.context_ = current();
  made.size_ = (size + granularity - 1) / granularity * granularity;
  const KnowsOfCapture knows;
  driver().cuMemCreate(&made.handle_, made.size_, &wanted, 0);
  made.map(device);
  return made;
}

SharedMemory SharedMemory::import(Device device, const Descriptor& exported, std::size_t size) {
  SharedMemory made;
  made.context_ = current();
  made.size_ = size;
  void* const descriptor = reinterpret_cast<void*>(static_cast<std::intptr_t>(exported.get()));
  const KnowsOfCapture knows;
  driver().cuMemImportFromShareableHandle(&made.handle_, descriptor, HandleType::posix_file_descriptor);
  made.map(device);
  return made;
}

void SharedMemory::map(Device device) {
  const KnowsOfCapture knows;
  driver().cuMemAddressReserve(&address_, size_, 0, 0, 0);
  driver().cuMemMap(address_, size_, 0, handle_, 0);
  mapped_ = true;
  const AccessDescription access{{location_device, device}, access_read_write};
  driver().cuMemSetAccess(address_, size_, &access, 1);
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(handle_, other.handle_);
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

SharedMemory::~SharedMemory() {
  release_in(context_, [&](const Driver& call) {
    if (mapped_) (void)call.cuMemUnmap.result(address_, size_);
    if (address_ != 0) (void)call.cuMemAddressFree.result(address_, size_);
    if (handle_ != 0) (void)call.cuMemRelease.result(handle_);
  });
}

void let_use(Address memory, Context user) {
  const PointerFacts facts = facts_of(memory);
  const Device device = device_of(user);
  if (facts.device == device) return;
  const KnowsOfCapture knows;
  if (facts.context == nullptr) {  // of cuMemCreate()
    const AccessDescription access{{location_device, device}, access_read_write};
    driver().cuMemSetAccess(facts.base, facts.size, &access, 1);
    return;
  }
  const Current current{user};
  const Result result = driver().cuCtxEnablePeerAccess.result(facts.context, 0);
  if (result != Result::success && result != Result::peer_access_already_enabled) fail("cuCtxEnablePeerAccess", result);
}

Descriptor export_descriptor_of(Address memory) {
  AllocationHandle handle = 0;
  driver().cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(memory));
  int descriptor = -1;
  const Result result =
      driver().cuMemExportToShareableHandle.result(&descriptor, handle, HandleType::posix_file_descriptor, 0);
  (void)driver().cuMemRelease.result(handle);
  if (result != Result::success) fail("cuMemExportToShareableHandle", result);
  return Descriptor{descriptor};
}

IpcMemoryHandle legacy_handle(Address memory) {
  IpcMemoryHandle handle{};
  driver().cuIpcGetMemHandle(&handle, memory);
  return handle;
}

OpenedMemory::OpenedMemory(const IpcMemoryHandle& handle) : context_(current()) {
  const KnowsOfCapture knows;
  driver().cuIpcOpenMemHandle(&address_, handle, ipc_lazy_peer_access);
}

OpenedMemory& OpenedMemory::operator=(OpenedMemory&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(address_, other.address_);
  return *this;
}

OpenedMemory::~OpenedMemory() {
  if (address_ != 0) release_in(context_, [&](const Driver& call) { (void)call.cuIpcCloseMemHandle.result(address_); });
}

}  // namespace tutti::cuda
