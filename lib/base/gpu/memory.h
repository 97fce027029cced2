#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "lib/base/descriptor.h"
#include "lib/base/gpu/context.h"
#include "lib/base/gpu/driver.h"
#include "lib/base/known_addresses.h"

// Memory that devices use. Each class owns one piece of it. A context must be current when an object is made, and its
// destructor makes the same one current, unless that has ended, and the memory with it. Destructors of device and host
// memory wait for all that the device does (in the driver), so none may run while a stream waits for a word that only
// this process can write.

namespace tutti::cuda {

/// What the driver knows about an address.
struct PointerFacts {
  enum class Kind : std::uint8_t {
    unknown,  ///< the program's own memory, of which the driver has not heard
    host,     ///< pinned
    device,
    managed,  ///< moves between both
  };
  Kind kind = Kind::unknown;
  Device device = -1;
  Context context = nullptr;  ///< null for virtual memory
  Address base = 0;           ///< of the allocation
  std::size_t size = 0;       ///< of the allocation
  std::uint64_t buffer = 0;   ///< differs between two allocations at the same address
  bool legacy_ipc = false;    ///< IpcMemoryHandle can be made of it
  bool descriptor = false;    ///< can be shared by file descriptor
};
PointerFacts facts_of(Address address);

/// Addresses about which this thread has asked while there was no driver. Their memory was not the driver's then. It
/// may be now only if it was freed and the driver got the same address, before anybody has found the driver.
inline thread_local constinit KnownAddresses memory_of_host;
bool ask_whether_device_memory(const void* pointer) noexcept;

/// True if `pointer` is device memory. For calls with host memory, which would crash on it. Never loads a driver, and
/// throws nothing. Where this process has loaded none, a further question about an address takes a few instructions;
/// the first one searches for a driver, which takes as long as a tiny message.
inline bool is_device_memory(const void* pointer) noexcept {
  const bool is_known = memory_of_host.has(pointer);
  return !(is_known && !driver_was_found.load(std::memory_order_relaxed)) && ask_whether_device_memory(pointer);
}

/// An address as the library's interfaces take it.
inline Address address_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }

/// Makes memory that the host already has, such as a mapping shared between processes, usable for all devices.
/// `data` and `size` are multiples of the page's size.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  RegisteredMemory(void* data, std::size_t size);
  RegisteredMemory(RegisteredMemory&& other) noexcept { *this = std::move(other); }
  RegisteredMemory& operator=(RegisteredMemory&& other) noexcept;
  ~RegisteredMemory();

  Address address() const { return address_; }

 private:
  KnownContext context_;
  void* data_ = nullptr;
  Address address_ = 0;
};

/// Memory of the current context's device, as cudaMalloc() makes it.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t size);
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  Address address() const { return address_; }
  std::size_t size() const { return size_; }

 private:
  KnownContext context_;
  Address address_ = 0;
  std::size_t size_ = 0;
};

/// Memory of a device that processes share by a file descriptor. The bytes live until the last process has dropped
/// them, so that the death of one does not take them away under another's kernel.
class SharedMemory {
 public:
  SharedMemory() = default;
  /// At least `size` bytes; see size().
  static SharedMemory create(Device device, std::size_t size);
  /// The memory that another process exported; `size` is that process's size(). `device` will use it.
  static SharedMemory import(Device device, const Descriptor& exported, std::size_t size);
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  Address address() const { return address_; }
  /// A multiple of the device's granularity, which is usually 2 MiB.
  std::size_t size() const { return size_; }

 private:
  void map(Device device);

  KnownContext context_;
  AllocationHandle handle_ = 0;
  Address address_ = 0;
  std::size_t size_ = 0;
  bool mapped_ = false;
};

/// Lets `user`, a context of this process, use the allocation of another GPU in which `memory` lies. Throws if the GPUs
/// cannot reach each other.
void let_use(Address memory, Context user);

/// A descriptor of an allocation of cuMemCreate() that anybody has mapped at `memory`, for SharedMemory::import(). Only
/// for memory that can be shared so (PointerFacts::descriptor).
Descriptor export_descriptor_of(Address memory);

/// The handle of the allocation in which `memory` lies: its base, so that the other process adds the offset. Only for
/// memory of cudaMalloc()'s kind (PointerFacts::legacy_ipc).
IpcMemoryHandle legacy_handle(Address memory);

/// An allocation of another process, opened by its handle. A process cannot open its own.
class OpenedMemory {
 public:
  OpenedMemory() = default;
  explicit OpenedMemory(const IpcMemoryHandle& handle);
  OpenedMemory(OpenedMemory&& other) noexcept { *this = std::move(other); }
  OpenedMemory& operator=(OpenedMemory&& other) noexcept;
  ~OpenedMemory();

  /// The base of the allocation.
  Address address() const { return address_; }

 private:
  KnownContext context_;
  Address address_ = 0;
};

}  // namespace tutti::cuda
