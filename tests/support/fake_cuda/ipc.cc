// The older way to share memory: handles of 64 bytes, which name the exporting process and its descriptor.

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/support/fake_cuda/entry_points.h"

namespace fake_cuda {
namespace {

struct Named {
  std::uint64_t magic;
  int process;
  int descriptor;
  std::uint64_t size;
  Address base;      // in the exporting process
  std::uint64_t id;  // 0 with FAKE_CUDA_REUSE_HANDLES: handles may then be equal
};
static_assert(sizeof(Named) <= sizeof(IpcMemoryHandle));

/// Notes in the memory itself that this process has it open, or no longer.
void note_user(Header& header, int before, int after) {
  for (auto& user : header.users) {
    int expected = before;
    if (user.compare_exchange_strong(expected, after)) return;
  }
}

}  // namespace

Result cuIpcGetMemHandle(IpcMemoryHandle* handle, Address address) {
  if (!settings().legacy_ipc) return Result::not_supported;
  Lock lock{big};
  Result error;
  if (current(lock, error) == nullptr) return error;
  const Range* const range = range_of(address);
  if (range == nullptr || range->kind != Range::Kind::allocated) return Result::invalid_value;
  const Physical& physical = *range->physical;
  const Named named{header_magic, ::getpid(),  physical.descriptor,
                    range->size,  range->base, settings().reuse_handles ? 0 : physical.header->id};
  *handle = {};
  std::memcpy(handle, &named, sizeof named);
  return Result::success;
}

Result cuIpcOpenMemHandle(Address* address, IpcMemoryHandle handle, unsigned flags) {
  if (!settings().legacy_ipc) return Result::not_supported;
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  Named named;
  std::memcpy(&named, &handle, sizeof named);
  if (flags != ipc_lazy_peer_access || named.magic != header_magic) return Result::invalid_value;
  if (named.process == ::getpid()) return Result::invalid_context;
  for (auto& [base, range] : ranges) {
    if (range.kind != Range::Kind::opened || range.handle != handle || range.physical->header->freed) continue;
    if (range.context != context) return Result::invalid_context;
    ++range.opens;
    *address = base;
    return Result::success;
  }
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", named.process, named.descriptor);
  const int descriptor = ::open(path, O_RDWR | O_CLOEXEC);
  Range range;
  range.kind = Range::Kind::opened;
  range.physical = open_physical(descriptor);
  if (descriptor >= 0) ::close(descriptor);
  if (range.physical == nullptr || range.physical->header->freed ||
      (named.id != 0 && range.physical->header->id != named.id))
    return Result::invalid_value;
  note_import(*range.physical);
  range.size = named.size;
  range.spread = (named.size + granularity - 1) / granularity * granularity + granularity;
  range.base = find_addresses(named.size);
  range.buffer = next_id();
  range.context = context;
  range.device = range.physical->device;
  range.opens = 1;
  range.handle = handle;
  if (range.base == 0 || !map_at(range.base, range, 0)) return Result::map_failed;
  note_user(*range.physical->header, 0, ::getpid());
  *address = range.base;
  ranges[range.base] = std::move(range);
  return Result::success;
}

Result cuIpcCloseMemHandle(Address address) {
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  const auto found = ranges.find(address);
  if (found == ranges.end() || found->second.kind != Range::Kind::opened) return Result::invalid_value;
  if (--found->second.opens > 0) return Result::success;
  wait_for_device(lock, *context, "cuIpcCloseMemHandle");
  Range& range = found->second;
  note_user(*range.physical->header, ::getpid(), 0);
  unmap_at(range.base, range.physical->size);
  ranges.erase(found);
  return Result::success;
}

}  // namespace fake_cuda
