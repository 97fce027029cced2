// Compares our declarations of the driver's interface with cuda.h, where that is installed. There is nothing to run.

#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>
#include <type_traits>

#include "lib/base/gpu/driver.h"

namespace tutti::cuda {
namespace {

// Each function: as many parameters, each passed in the same way.
template <class Own, class Theirs>
constexpr bool same_parameter =
    sizeof(Own) == sizeof(Theirs) && std::is_pointer_v<Own> == std::is_pointer_v<Theirs>&& std::is_class_v<Own> ==
                                         std::is_class_v<Theirs>;

template <class Own, class Theirs>
struct Same : std::false_type {};
template <class... Own, class... Theirs>
requires(sizeof...(Own) == sizeof...(Theirs)) struct Same<Result (*)(Own...), CUresult (*)(Theirs...)>
    : std::bool_constant<(same_parameter<Own, Theirs> && ...)> {
};

#define TUTTI_DRIVER_FUNCTION(name, version, ...)                                 \
  static_assert(Same<Function<__VA_ARGS__>::Pointer, PFN_##name##_v##version>{}); \
  static_assert(version <= 12000);
#include "lib/base/gpu/functions.inc"
using GraphExec = void*;
#include "tests/support/fake_cuda/program_functions.inc"
#undef TUTTI_DRIVER_FUNCTION

static_assert(!Same<Result (*)(int, void*), CUresult (*)(int, int)>{});

#define TUTTI_EQUAL(own, theirs) static_assert(static_cast<long long>(own) == static_cast<long long>(theirs))
TUTTI_EQUAL(Result::success, CUDA_SUCCESS);
TUTTI_EQUAL(Result::invalid_value, CUDA_ERROR_INVALID_VALUE);
TUTTI_EQUAL(Result::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
TUTTI_EQUAL(Result::not_initialized, CUDA_ERROR_NOT_INITIALIZED);
TUTTI_EQUAL(Result::deinitialized, CUDA_ERROR_DEINITIALIZED);
TUTTI_EQUAL(Result::stub_library, CUDA_ERROR_STUB_LIBRARY);
TUTTI_EQUAL(Result::no_device, CUDA_ERROR_NO_DEVICE);
TUTTI_EQUAL(Result::invalid_device, CUDA_ERROR_INVALID_DEVICE);
TUTTI_EQUAL(Result::invalid_image, CUDA_ERROR_INVALID_IMAGE);
TUTTI_EQUAL(Result::invalid_context, CUDA_ERROR_INVALID_CONTEXT);
TUTTI_EQUAL(Result::map_failed, CUDA_ERROR_MAP_FAILED);
TUTTI_EQUAL(Result::already_mapped, CUDA_ERROR_ALREADY_MAPPED);
TUTTI_EQUAL(Result::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
TUTTI_EQUAL(Result::peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
TUTTI_EQUAL(Result::unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
TUTTI_EQUAL(Result::invalid_handle, CUDA_ERROR_INVALID_HANDLE);
TUTTI_EQUAL(Result::illegal_state, CUDA_ERROR_ILLEGAL_STATE);
TUTTI_EQUAL(Result::not_found, CUDA_ERROR_NOT_FOUND);
TUTTI_EQUAL(Result::not_ready, CUDA_ERROR_NOT_READY);
TUTTI_EQUAL(Result::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
TUTTI_EQUAL(Result::peer_access_already_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
TUTTI_EQUAL(Result::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
TUTTI_EQUAL(Result::host_memory_already_registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
TUTTI_EQUAL(Result::host_memory_not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
TUTTI_EQUAL(Result::launch_failed, CUDA_ERROR_LAUNCH_FAILED);
TUTTI_EQUAL(Result::not_permitted, CUDA_ERROR_NOT_PERMITTED);
TUTTI_EQUAL(Result::not_supported, CUDA_ERROR_NOT_SUPPORTED);
TUTTI_EQUAL(Result::system_not_ready, CUDA_ERROR_SYSTEM_NOT_READY);
TUTTI_EQUAL(Result::system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
TUTTI_EQUAL(Result::compat_not_supported_on_device, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
TUTTI_EQUAL(Result::capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
TUTTI_EQUAL(Result::capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
TUTTI_EQUAL(Result::capture_merge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
TUTTI_EQUAL(Result::capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
TUTTI_EQUAL(Result::capture_unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
TUTTI_EQUAL(Result::capture_isolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
TUTTI_EQUAL(Result::capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
TUTTI_EQUAL(Result::captured_event, CUDA_ERROR_CAPTURED_EVENT);
TUTTI_EQUAL(Result::unknown, CUDA_ERROR_UNKNOWN);

TUTTI_EQUAL(DeviceAttribute::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
TUTTI_EQUAL(DeviceAttribute::compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
TUTTI_EQUAL(DeviceAttribute::compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
TUTTI_EQUAL(DeviceAttribute::virtual_memory_management, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
TUTTI_EQUAL(DeviceAttribute::posix_file_descriptor, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
TUTTI_EQUAL(DeviceAttribute::stream_memory_operations_64, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);

TUTTI_EQUAL(PointerAttribute::context, CU_POINTER_ATTRIBUTE_CONTEXT);
TUTTI_EQUAL(PointerAttribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
TUTTI_EQUAL(PointerAttribute::device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
TUTTI_EQUAL(PointerAttribute::buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID);
TUTTI_EQUAL(PointerAttribute::is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED);
TUTTI_EQUAL(PointerAttribute::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
TUTTI_EQUAL(PointerAttribute::is_legacy_ipc_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
TUTTI_EQUAL(PointerAttribute::range_start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
TUTTI_EQUAL(PointerAttribute::range_size, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
TUTTI_EQUAL(PointerAttribute::allowed_handle_types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);

TUTTI_EQUAL(FunctionAttribute::registers, CU_FUNC_ATTRIBUTE_NUM_REGS);
TUTTI_EQUAL(FunctionAttribute::local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
TUTTI_EQUAL(FunctionAttribute::max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
TUTTI_EQUAL(HandleType::posix_file_descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
TUTTI_EQUAL(stream_non_blocking, CU_STREAM_NON_BLOCKING);
TUTTI_EQUAL(event_disable_timing, CU_EVENT_DISABLE_TIMING);
TUTTI_EQUAL(wait_value_at_least, CU_STREAM_WAIT_VALUE_GEQ);
TUTTI_EQUAL(host_portable, CU_MEMHOSTALLOC_PORTABLE);
TUTTI_EQUAL(host_portable, CU_MEMHOSTREGISTER_PORTABLE);
TUTTI_EQUAL(host_mapped, CU_MEMHOSTALLOC_DEVICEMAP);
TUTTI_EQUAL(host_mapped, CU_MEMHOSTREGISTER_DEVICEMAP);
TUTTI_EQUAL(ipc_lazy_peer_access, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
TUTTI_EQUAL(memory_type_host, CU_MEMORYTYPE_HOST);
TUTTI_EQUAL(memory_type_device, CU_MEMORYTYPE_DEVICE);
TUTTI_EQUAL(allocation_pinned, CU_MEM_ALLOCATION_TYPE_PINNED);
TUTTI_EQUAL(location_device, CU_MEM_LOCATION_TYPE_DEVICE);
TUTTI_EQUAL(granularity_minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
TUTTI_EQUAL(access_read_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
TUTTI_EQUAL(capture_none, CU_STREAM_CAPTURE_STATUS_NONE);
TUTTI_EQUAL(CaptureMode::global, CU_STREAM_CAPTURE_MODE_GLOBAL);
TUTTI_EQUAL(CaptureMode::of_thread, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
TUTTI_EQUAL(CaptureMode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
TUTTI_EQUAL(graph_user_object_move, CU_GRAPH_USER_OBJECT_MOVE);
TUTTI_EQUAL(user_object_no_destructor_sync, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
TUTTI_EQUAL(MemoryOperation::Kind::wait_64, CU_STREAM_MEM_OP_WAIT_VALUE_64);
TUTTI_EQUAL(MemoryOperation::Kind::write_64, CU_STREAM_MEM_OP_WRITE_VALUE_64);

#define TUTTI_SAME_PLACE(own, field, theirs, their_field)                \
  static_assert(offsetof(own, field) == offsetof(theirs, their_field) && \
                sizeof(std::declval<own>().field) == sizeof(std::declval<theirs>().their_field))
static_assert(sizeof(Uuid) == sizeof(CUuuid));
static_assert(sizeof(IpcMemoryHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
TUTTI_SAME_PLACE(AllocationProperties, type, CUmemAllocationProp, type);
TUTTI_SAME_PLACE(AllocationProperties, requested_handle_types, CUmemAllocationProp, requestedHandleTypes);
TUTTI_SAME_PLACE(AllocationProperties, location, CUmemAllocationProp, location);
TUTTI_SAME_PLACE(AllocationProperties, for_windows, CUmemAllocationProp, win32HandleMetaData);
TUTTI_SAME_PLACE(AllocationProperties, usage, CUmemAllocationProp, allocFlags.usage);
static_assert(sizeof(AccessDescription) == sizeof(CUmemAccessDesc));
TUTTI_SAME_PLACE(AccessDescription, flags, CUmemAccessDesc, flags);
TUTTI_SAME_PLACE(Location, id, CUmemLocation, id);
static_assert(sizeof(RowsCopy) == sizeof(CUDA_MEMCPY2D));
TUTTI_SAME_PLACE(RowsCopy, from.memory_type, CUDA_MEMCPY2D, srcMemoryType);
TUTTI_SAME_PLACE(RowsCopy, from.host, CUDA_MEMCPY2D, srcHost);
TUTTI_SAME_PLACE(RowsCopy, from.pitch, CUDA_MEMCPY2D, srcPitch);
TUTTI_SAME_PLACE(RowsCopy, to.memory_type, CUDA_MEMCPY2D, dstMemoryType);
TUTTI_SAME_PLACE(RowsCopy, to.device, CUDA_MEMCPY2D, dstDevice);
TUTTI_SAME_PLACE(RowsCopy, to.pitch, CUDA_MEMCPY2D, dstPitch);
TUTTI_SAME_PLACE(RowsCopy, width, CUDA_MEMCPY2D, WidthInBytes);
TUTTI_SAME_PLACE(RowsCopy, height, CUDA_MEMCPY2D, Height);
static_assert(sizeof(MemoryOperation) == sizeof(CUstreamBatchMemOpParams));
TUTTI_SAME_PLACE(MemoryOperation, address, CUstreamBatchMemOpParams, waitValue.address);
TUTTI_SAME_PLACE(MemoryOperation, value, CUstreamBatchMemOpParams, waitValue.value64);
TUTTI_SAME_PLACE(MemoryOperation, flags, CUstreamBatchMemOpParams, waitValue.flags);
TUTTI_SAME_PLACE(MemoryOperation, address, CUstreamBatchMemOpParams, writeValue.address);
TUTTI_SAME_PLACE(MemoryOperation, value, CUstreamBatchMemOpParams, writeValue.value64);
TUTTI_SAME_PLACE(MemoryOperation, flags, CUstreamBatchMemOpParams, writeValue.flags);

}  // namespace
}  // namespace tutti::cuda
