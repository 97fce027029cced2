// Memory that is created, mapped and made accessible in three steps, and shared by file descriptors.

#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>

#include "tests/support/fake_cuda/entry_points.h"

namespace fake_cuda {
namespace {

/// What a program holds by a handle; what is mapped holds it as well.
std::map<AllocationHandle, std::shared_ptr<Physical>>& handles =
    *new std::map<AllocationHandle, std::shared_ptr<Physical>>;

Result add_handle(std::shared_ptr<Physical> physical, AllocationHandle* handle) {
  *handle = next_id() << 8;
  handles[*handle] = std::move(physical);
  return Result::success;
}

bool is_supported(const AllocationProperties& wanted) {
  return wanted.type == allocation_pinned && wanted.location.type == location_device && wanted.location.id >= 0 &&
         wanted.location.id < settings().devices;
}

}  // namespace

Result cuMemGetAllocationGranularity(std::size_t* size, const AllocationProperties* wanted, int) {
  if (!settings().virtual_memory) return Result::not_supported;
  if (!is_supported(*wanted)) return Result::invalid_value;
  *size = granularity;
  return Result::success;
}

Result cuMemCreate(AllocationHandle* handle, std::size_t size, const AllocationProperties* wanted,
                   unsigned long long flags) {
  if (!settings().virtual_memory) return Result::not_supported;
  if (size == 0 || size % granularity != 0 || flags != 0 || !is_supported(*wanted)) return Result::invalid_value;
  const Lock lock{big};
  auto physical = make_physical(size, wanted->location.id);
  if (physical == nullptr) return Result::out_of_memory;
  physical->header->exportable = wanted->requested_handle_types == HandleType::posix_file_descriptor;
  return add_handle(std::move(physical), handle);
}

Result cuMemRelease(AllocationHandle handle) {
  const Lock lock{big};
  return handles.erase(handle) == 1 ? Result::success : Result::invalid_value;
}

Result cuMemRetainAllocationHandle(AllocationHandle* handle, void* address) {
  const Lock lock{big};
  const Range* const range = range_of(reinterpret_cast<Address>(address));
  if (range == nullptr || range->kind != Range::Kind::reserved || range->physical == nullptr)
    return Result::invalid_value;
  return add_handle(range->physical, handle);
}

Result cuMemExportToShareableHandle(void* descriptor, AllocationHandle handle, HandleType type,
                                    unsigned long long flags) {
  const Lock lock{big};
  const auto found = handles.find(handle);
  if (found == handles.end() || type != HandleType::posix_file_descriptor || flags != 0 ||
      !found->second->header->exportable)
    return Result::invalid_value;
  const int made = ::fcntl(found->second->descriptor, F_DUPFD_CLOEXEC, 0);
  if (made < 0) return Result::unknown;
  std::memcpy(descriptor, &made, sizeof made);
  return Result::success;
}

Result cuMemImportFromShareableHandle(AllocationHandle* handle, void* descriptor, HandleType type) {
  if (!settings().virtual_memory) return Result::not_supported;
  if (type != HandleType::posix_file_descriptor) return Result::invalid_value;
  const Lock lock{big};
  auto physical = open_physical(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)));
  if (physical == nullptr) return Result::invalid_value;
  note_import(*physical);
  return add_handle(std::move(physical), handle);
}

Result cuMemAddressReserve(Address* address, std::size_t size, std::size_t, Address, unsigned long long) {
  if (size == 0 || size % granularity != 0) return Result::invalid_value;
  const Lock lock{big};
  Range range;
  range.kind = Range::Kind::reserved;
  range.size = size;
  range.spread = size + granularity;
  range.base = find_addresses(size);
  range.users = 0;
  if (range.base == 0) return Result::out_of_memory;
  *address = range.base;
  ranges[range.base] = std::move(range);
  return Result::success;
}

/// The pieces of which `size` bytes of reserved addresses from `address` on consist, one behind the other, some of them
/// mapped. Empty: they are not reserved, or end within a piece.
static std::vector<Range*> pieces(Address address, std::size_t size) {
  std::vector<Range*> all;
  const Address end = address + size;
  for (auto at = ranges.find(address); at != ranges.end() && at->first == address; ++at) {
    if (at->second.kind != Range::Kind::reserved || at->second.size > end - address) return {};
    all.push_back(&at->second);
    address += at->second.size;
    if (address == end) return all;
  }
  return {};
}

Result cuMemAddressFree(Address address, std::size_t size) {
  const Lock lock{big};
  const std::vector<Range*> all = pieces(address, size);
  if (all.empty()) return Result::invalid_value;
  for (const Range* range : all)
    if (range->physical != nullptr) return Result::invalid_value;
  ranges.erase(ranges.find(address), ranges.upper_bound(all.back()->base));
  return Result::success;
}

/// Makes a piece of its own of a part of what is reserved.
static Range* split(Range& range, Address address, std::size_t size) {
  const auto cut = [](Range& whole, std::size_t first) -> Range& {
    if (whole.size == first) return whole;
    Range rest = whole;
    rest.base += first;
    rest.size -= first;
    rest.spread -= first;
    whole.size = whole.spread = first;
    return ranges[rest.base] = rest;
  };
  Range& from = address == range.base ? range : cut(range, address - range.base);
  (void)cut(from, size);
  return &from;
}

Result cuMemMap(Address address, std::size_t size, std::size_t offset, AllocationHandle handle, unsigned long long) {
  const Lock lock{big};
  Range* const whole = range_of(address, size);
  const auto found = handles.find(handle);
  if (whole == nullptr || whole->kind != Range::Kind::reserved || address % granularity != 0 || offset != 0 ||
      whole->physical != nullptr || found == handles.end() || found->second->size != size)
    return Result::invalid_value;
  Range* const range = split(*whole, address, size);
  range->physical = found->second;
  range->device = found->second->device;
  range->buffer = next_id();
  return map_at(address, *range, 0) ? Result::success : Result::out_of_memory;
}

Result cuMemUnmap(Address address, std::size_t size) {
  Lock lock{big};
  const std::vector<Range*> all = pieces(address, size);
  if (all.empty()) return Result::invalid_value;
  for (const Range* range : all)
    if (range->physical == nullptr) return Result::invalid_value;
  unmap_at(address, size);
  for (Range* range : all) {
    range->physical.reset();
    range->users = 0;
  }
  return Result::success;
}

Result cuMemSetAccess(Address address, std::size_t size, const AccessDescription* access, std::size_t count) {
  const Lock lock{big};
  const std::vector<Range*> all = pieces(address, size);
  if (all.empty() || count == 0) return Result::invalid_value;
  std::uint32_t users = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Device device = access[i].location.id;
    if (access[i].flags != access_read_write || device < 0 || device >= settings().devices)
      return Result::invalid_value;
    users |= 1U << device;
  }
  for (Range* range : all) {
    if (range->physical == nullptr) return Result::invalid_value;
    if (!settings().peer_access && users != 1U << range->device) return Result::invalid_value;
    range->users |= users;
    if (!map_at(range->base, *range, 0)) return Result::out_of_memory;
  }
  return Result::success;
}

}  // namespace fake_cuda
