// Device addresses lie in the first half of a reservation that nobody can read; the bytes are mapped as far behind it
// as the reservation's half is long. So the host crashes on a device address, and system calls answer EFAULT, while
// commands, which add the distance, find the bytes.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "tests/support/fake_cuda/control.h"
#include "tests/support/fake_cuda/entry_points.h"

namespace fake_cuda {

std::map<Address, Range>& ranges = *new std::map<Address, Range>;

namespace {

constexpr std::size_t half = std::size_t{16} << 30;
constexpr unsigned char garbage = 0xa5;  // in new memory
constexpr unsigned char canary = 0xc5;   // between the end of an allocation and that of its page
constexpr std::size_t page = 4096;

Address first_address() {
  static const Address first = [] {
    void* const made =
        ::mmap(nullptr, 2 * half + granularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) misuse("no address space for device memory");
    return (reinterpret_cast<Address>(made) + granularity - 1) / granularity * granularity;
  }();
  return first;
}

std::size_t round_up(std::size_t size, std::size_t to) { return (size + to - 1) / to * to; }

void write_canary(const Range& range, bool check) {
  for (std::byte* at = alias_of(range.base) + range.size; at != alias_of(range.base) + round_up(range.size, page);
       ++at) {
    if (check && *at != std::byte{canary})
      misuse("a command wrote behind the end of device memory of " + std::to_string(range.size) + " bytes");
    *at = std::byte{canary};
  }
}

}  // namespace

std::uint64_t next_id() {
  static std::uint64_t last = 0;
  return ++last;
}

Physical::~Physical() {
  if (header != nullptr) ::munmap(header, header_size);
  if (descriptor >= 0) ::close(descriptor);
}

std::shared_ptr<Physical> make_physical(std::size_t size, Device device) {
  auto made = std::make_shared<Physical>();
  made->size = round_up(size, page);
  made->device = device;
  if (made->size > half) return nullptr;
  made->descriptor = ::memfd_create("fake GPU", MFD_CLOEXEC);
  if (made->descriptor < 0 || ::ftruncate(made->descriptor, static_cast<off_t>(header_size + made->size)) != 0)
    return nullptr;
  void* const header = ::mmap(nullptr, header_size, PROT_READ | PROT_WRITE, MAP_SHARED, made->descriptor, 0);
  if (header == MAP_FAILED) return nullptr;
  made->header = new (header) Header{header_magic, next_id(), made->size, device, {false}, {false}, {}};
  return made;
}

std::shared_ptr<Physical> open_physical(int descriptor) {
  struct stat facts {};
  if (descriptor < 0 || ::fstat(descriptor, &facts) != 0 || facts.st_size <= static_cast<off_t>(header_size))
    return nullptr;
  auto made = std::make_shared<Physical>();
  made->descriptor = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  void* const header = ::mmap(nullptr, header_size, PROT_READ | PROT_WRITE, MAP_SHARED, made->descriptor, 0);
  if (header == MAP_FAILED) return nullptr;
  made->header = static_cast<Header*>(header);
  if (made->header->magic != header_magic) return nullptr;
  made->size = made->header->size;
  made->device = made->header->device;
  return made;
}

Address find_addresses(std::size_t size) {
  const std::size_t wanted = round_up(size, granularity) + granularity;  // with a guard behind it
  Address at = first_address();
  for (const auto& [base, range] : ranges) {
    if (base < first_address() || base >= first_address() + half) continue;
    if (base - at >= wanted) break;
    at = base + range.spread;
  }
  return at + wanted <= first_address() + half ? at : 0;
}

std::byte* alias_of(Address address) { return reinterpret_cast<std::byte*>(address + half); }

bool map_at(Address address, const Range& range, std::size_t offset) {
  const int protection = range.users != 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
  return ::mmap(alias_of(address), range.physical->size, protection, MAP_SHARED | MAP_FIXED, range.physical->descriptor,
                static_cast<off_t>(header_size + offset)) != MAP_FAILED;
}

void unmap_at(Address address, std::size_t size) {
  ::mmap(alias_of(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void end_memory(const ContextState& context) {
  std::erase_if(ranges, [&](const auto& one) {
    const Range& range = one.second;
    if (range.context != &context) return false;
    if (range.kind == Range::Kind::host_allocated) ::munmap(reinterpret_cast<void*>(range.base), range.size);
    if (range.kind == Range::Kind::allocated) unmap_at(range.base, range.spread);
    return range.kind != Range::Kind::opened;
  });
}

Range* range_of(Address address, std::size_t bytes) {
  auto found = ranges.upper_bound(address);
  if (found == ranges.begin()) return nullptr;
  --found;
  Range& range = found->second;
  return address - range.base + bytes <= range.size ? &range : nullptr;
}

namespace {

bool may_use(const Range& range, const ContextState& by) {
  if (range.kind == Range::Kind::reserved) return (range.users >> by.device & 1) != 0;
  if (range.context == nullptr || range.context->device == by.device) return true;
  const bool of_host = range.kind == Range::Kind::host_allocated || range.kind == Range::Kind::host_registered;
  return of_host || (range.kind == Range::Kind::allocated && by.peers.contains(range.context->id));
}

}  // namespace

/// The bytes may reach over pieces that are mapped side by side.
std::byte* reach(Address address, std::size_t bytes, const ContextState& by) {
  const Range* const range = range_of(address);
  if (range == nullptr || !may_use(*range, by)) return nullptr;
  const std::size_t here = range->base + range->size - address;
  if (bytes > here && (range->kind != Range::Kind::reserved || reach(address + here, bytes - here, by) == nullptr))
    return nullptr;
  const bool host = range->kind == Range::Kind::host_allocated || range->kind == Range::Kind::host_registered;
  if (!host && range->physical == nullptr) return nullptr;
  return host ? reinterpret_cast<std::byte*>(address) : alias_of(address);
}

namespace {

std::atomic<std::uint64_t> imports{0};
std::atomic<std::uint64_t> used[2][2];  // by is_write, and whether it was imported

}  // namespace

void note_import(Physical& physical) {
  physical.imported = true;
  ++imports;
}

void note_use(Address address, std::size_t bytes, bool is_write) {
  const Range* const range = range_of(address, bytes);
  if (range != nullptr && range->physical != nullptr)
    used[is_write ? 1 : 0][range->physical->imported ? 1 : 0] += bytes;
}

Result cuMemAlloc(Address* address, std::size_t size) {
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  if (size == 0) return Result::invalid_value;
  Range range;
  range.size = size;
  range.spread = round_up(size, granularity) + granularity;
  range.buffer = next_id();
  range.context = context;
  range.device = context->device;
  range.base = find_addresses(size);
  range.physical = make_physical(size, context->device);
  if (range.base == 0 || range.physical == nullptr || !map_at(range.base, range, 0)) return Result::out_of_memory;
  std::memset(alias_of(range.base), garbage, std::min(size, std::size_t{16} << 20));
  write_canary(range, false);
  *address = range.base;
  ranges[range.base] = std::move(range);
  return Result::success;
}

/// Whether a process exists that has not ended: a zombie has.
static bool is_alive(int pid) {
  char text[64];
  std::snprintf(text, sizeof text, "/proc/%d/stat", pid);
  std::FILE* const file = std::fopen(text, "re");
  if (file == nullptr) return false;
  char state = 'Z';
  const int found = std::fscanf(file, "%*d (%*[^)]) %c", &state);
  std::fclose(file);
  return found == 1 && state != 'Z' && state != 'X';
}

Result cuMemFree(Address address) {
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  if (address == 0) return Result::success;
  const auto found = ranges.find(address);
  if (found == ranges.end() || found->second.kind != Range::Kind::allocated) return Result::invalid_value;
  wait_for_device(lock, *context, "cuMemFree");
  Range& range = found->second;
  write_canary(range, true);
  for (const auto& user : range.physical->header->users)
    if (const int pid = user.load(); pid != 0 && is_alive(pid))
      misuse("device memory is freed while process " + std::to_string(pid) + " has it open");
  range.physical->header->freed = true;
  unmap_at(range.base, range.physical->size);
  ranges.erase(found);
  return Result::success;
}

Result cuMemHostAlloc(void** data, std::size_t size, unsigned flags) {
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  if (size == 0 || (flags & ~7u) != 0) return Result::invalid_value;
  void* const made = ::mmap(nullptr, round_up(size, page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return Result::out_of_memory;
  std::memset(made, garbage, std::min(size, std::size_t{16} << 20));
  Range range;
  range.kind = Range::Kind::host_allocated;
  range.base = reinterpret_cast<Address>(made);
  range.size = range.spread = size;
  range.buffer = next_id();
  range.context = context;
  range.device = context->device;
  ranges[range.base] = std::move(range);
  *data = made;
  return Result::success;
}

/// Ends the use of host memory, which waits for the device.
static Result end_host_memory(void* data, Range::Kind kind, Result if_unknown, const char* function) {
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  const auto found = ranges.find(reinterpret_cast<Address>(data));
  if (found == ranges.end() || found->second.kind != kind) return if_unknown;
  wait_for_device(lock, *context, function);
  if (kind == Range::Kind::host_allocated) ::munmap(data, round_up(found->second.size, page));
  ranges.erase(found);
  return Result::success;
}

Result cuMemFreeHost(void* data) {
  return end_host_memory(data, Range::Kind::host_allocated, Result::invalid_value, "cuMemFreeHost");
}

Result cuMemHostRegister(void* data, std::size_t size, unsigned) {
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  const auto at = reinterpret_cast<Address>(data);
  if (data == nullptr || size == 0) return Result::invalid_value;
  if (::msync(reinterpret_cast<void*>(at / page * page), round_up(at % page + size, page), MS_ASYNC) != 0 &&
      errno == ENOMEM)
    return Result::invalid_value;  // nothing is there
  for (Address part = at; part < at + size; part += page)
    if (range_of(part) != nullptr) return Result::host_memory_already_registered;
  Range range;
  range.kind = Range::Kind::host_registered;
  range.base = at;
  range.size = range.spread = size;
  range.buffer = next_id();
  range.context = context;
  range.device = context->device;
  ranges[at] = std::move(range);
  return Result::success;
}

Result cuMemHostUnregister(void* data) {
  return end_host_memory(data, Range::Kind::host_registered, Result::host_memory_not_registered, "cuMemHostUnregister");
}

Result cuMemHostGetDevicePointer(Address* address, void* data, unsigned) {
  Lock lock{big};
  Result error;
  if (current(lock, error) == nullptr) return error;
  const Range* const range = range_of(reinterpret_cast<Address>(data));
  if (range == nullptr || (range->kind != Range::Kind::host_allocated && range->kind != Range::Kind::host_registered))
    return Result::invalid_value;
  *address = reinterpret_cast<Address>(data);
  return Result::success;
}

/// One attribute of an address; the caller's variable is of the attribute's type.
static void answer(const Range* range, PointerAttribute attribute, void* to) {
  const bool host =
      range != nullptr && (range->kind == Range::Kind::host_allocated || range->kind == Range::Kind::host_registered);
  const bool is_virtual = range != nullptr && range->kind == Range::Kind::reserved;
  const auto put = [&](auto value) { std::memcpy(to, &value, sizeof value); };
  switch (attribute) {
    case PointerAttribute::context:
      return put(range == nullptr || is_virtual ? Context{} : Context{range->context});
    case PointerAttribute::memory_type:
      return put(range == nullptr ? 0 : host ? memory_type_host : memory_type_device);
    case PointerAttribute::device_pointer:
      return put(range == nullptr ? Address{0} : range->base);
    case PointerAttribute::buffer_id:
      return put(range == nullptr ? std::uint64_t{0} : range->buffer);
    case PointerAttribute::is_managed:
      return put(0u);
    case PointerAttribute::device_ordinal:
      return put(range == nullptr ? -2 : range->device);
    case PointerAttribute::is_legacy_ipc_capable:
      return put(static_cast<unsigned char>(range != nullptr && range->kind == Range::Kind::allocated));
    case PointerAttribute::range_start:
      return put(range == nullptr ? Address{0} : range->base);
    case PointerAttribute::range_size:
      return put(range == nullptr ? std::size_t{0} : range->size);
    case PointerAttribute::allowed_handle_types:
      return put(std::uint64_t{is_virtual && range->physical != nullptr && range->physical->header->exportable});
  }
}

Result cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** answers, Address address) {
  const Lock lock{big};
  const Range* const range = range_of(address);
  for (unsigned i = 0; i < count; ++i) answer(range, attributes[i], answers[i]);
  return Result::success;
}

}  // namespace fake_cuda

extern "C" __attribute__((visibility("default"))) void* fake_cuda_reach(const void* address) {
  const auto at = reinterpret_cast<fake_cuda::Address>(address);
  const bool device = at - fake_cuda::first_address() < fake_cuda::half;
  return device ? static_cast<void*>(fake_cuda::alias_of(at)) : const_cast<void*>(address);
}

extern "C" {

__attribute__((visibility("default"))) void fake_cuda_note_use(const void* address, std::size_t bytes, int is_write) {
  if (fake_cuda_can_reach(address, bytes) == 0)
    fake_cuda_fail_kernel(static_cast<int>(tutti::cuda::Result::illegal_address));
  const fake_cuda::Hidden hidden;
  const fake_cuda::Lock lock{fake_cuda::big};
  fake_cuda::note_use(reinterpret_cast<fake_cuda::Address>(address), bytes, is_write != 0);
}

__attribute__((visibility("default"))) std::uint64_t fake_cuda_bytes_used(int is_write, int only_imported) {
  const auto& bytes = fake_cuda::used[is_write != 0 ? 1 : 0];
  return bytes[1] + (only_imported != 0 ? 0 : bytes[0].load());
}

__attribute__((visibility("default"))) std::uint64_t fake_cuda_imports() { return fake_cuda::imports; }

__attribute__((visibility("default"))) std::uint64_t fake_cuda_imports_mapped() {
  const fake_cuda::Lock lock{fake_cuda::big};
  std::uint64_t mapped = 0;
  for (const auto& [base, range] : fake_cuda::ranges)
    if (range.physical != nullptr && range.physical->imported) ++mapped;
  return mapped;
}
}
