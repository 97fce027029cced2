#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// The types of the driver's interface, as far as this library uses them. tests/gpu/abi_test.cc compares them, and the
// functions in functions.inc, with cuda.h where that is installed.

namespace tutti::cuda {

using Address = std::uint64_t;  ///< of memory that a device reads and writes (CUdeviceptr)
using Device = int;
using AllocationHandle = std::uint64_t;
// A CUcontext, a CUstream or cudaStream_t, and so on.
using Context = void*;
using Stream = void*;
using Event = void*;
using LibraryHandle = void*;
using Kernel = void*;
using Graph = void*;
using UserObject = void*;

/// CUresult, as far as somebody distinguishes them.
enum class Result : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  stub_library = 34,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  map_failed = 205,
  already_mapped = 208,
  no_binary_for_gpu = 209,
  peer_access_unsupported = 217,
  unsupported_ptx_version = 222,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  peer_access_already_enabled = 704,
  context_is_destroyed = 709,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  launch_failed = 719,
  not_permitted = 800,
  not_supported = 801,
  system_not_ready = 802,
  system_driver_mismatch = 803,
  compat_not_supported_on_device = 804,
  capture_unsupported = 900,
  capture_invalidated = 901,
  capture_merge = 902,
  capture_unmatched = 903,
  capture_unjoined = 904,
  capture_isolation = 905,
  capture_implicit = 906,
  captured_event = 907,
  unknown = 999,
};

enum class DeviceAttribute : int {
  multiprocessor_count = 16,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  virtual_memory_management = 102,
  posix_file_descriptor = 103,
  // Of the functions in their second version; that of the first (92) is 0 where these work.
  stream_memory_operations_64 = 122,
};

enum class PointerAttribute : int {
  context = 1,
  memory_type = 2,
  device_pointer = 3,
  buffer_id = 7,
  is_managed = 8,
  device_ordinal = 9,
  is_legacy_ipc_capable = 10,
  range_start = 11,
  range_size = 12,
  allowed_handle_types = 14,
};

enum class FunctionAttribute : int { registers = 4, local_bytes = 3, max_threads_per_block = 0 };

enum class HandleType : int { none = 0, posix_file_descriptor = 1 };

// Values of parameters that are plain integers in the driver's interface.
inline constexpr unsigned stream_non_blocking = 1;  // no order with the legacy default stream
inline constexpr unsigned event_disable_timing = 2;
inline constexpr unsigned wait_value_at_least = 0;  // cyclic: as a signed number, *address - value >= 0
inline constexpr unsigned host_portable = 1;        // for all contexts
inline constexpr unsigned host_mapped = 2;          // devices may use it
inline constexpr unsigned ipc_lazy_peer_access = 1;
inline constexpr int memory_type_host = 1;
inline constexpr int memory_type_device = 2;
inline constexpr int allocation_pinned = 1;
inline constexpr int location_device = 1;
inline constexpr int granularity_minimum = 0;
inline constexpr int access_read_write = 3;
inline constexpr int capture_none = 0;
inline constexpr int capture_active = 1;
inline constexpr int capture_spoiled = 2;
inline constexpr unsigned graph_user_object_move = 1;
inline constexpr unsigned user_object_no_destructor_sync = 1;

/// Which calls a thread must not make while streams are being captured, by whichever thread.
enum class CaptureMode : int { global = 0, of_thread = 1, relaxed = 2 };
inline Stream const legacy_stream = reinterpret_cast<Stream>(1);
inline Stream const per_thread_stream = reinterpret_cast<Stream>(2);

struct Uuid {
  std::array<unsigned char, 16> bytes;
  bool operator==(const Uuid&) const = default;
};

struct Location {
  int type;
  int id;
};

struct AllocationProperties {
  int type;
  HandleType requested_handle_types;
  Location location;
  void* for_windows;
  unsigned char compression;
  unsigned char gpu_direct_rdma;
  unsigned short usage;
  std::array<unsigned char, 4> reserved;
};

struct AccessDescription {
  Location location;
  int flags;
};

/// A wait for a word in memory, or a write of one, on a stream (CUstreamBatchMemOpParams).
struct MemoryOperation {
  enum class Kind : int { wait_64 = 4, write_64 = 5 };
  Kind kind;
  Address address;
  std::uint64_t value;
  unsigned flags;
  Address for_the_driver;
  std::uint64_t padding;
};

/// A copy of rows: `height` of them, each of `width` bytes, `pitch` bytes after the one before (CUDA_MEMCPY2D).
struct RowsCopy {
  struct Side {
    std::size_t x = 0;
    std::size_t y = 0;
    int memory_type;
    void* host = nullptr;
    Address device = 0;
    void* array = nullptr;
    std::size_t pitch;
  };
  Side from;
  Side to;
  std::size_t width;
  std::size_t height;
};

struct IpcMemoryHandle {
  std::array<char, 64> bytes;
  bool operator==(const IpcMemoryHandle&) const = default;
};

}  // namespace tutti::cuda
