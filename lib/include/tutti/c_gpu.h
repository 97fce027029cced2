#pragma once

/// Memory of GPUs that the kernels of all ranks can use, for C11 (docs/gpu.md). Collectives on it need no copies.
/// Errors, ownership and threads are as in <tutti/c.h>, and <tutti/gpu_memory.h> says more about each function.
///
///     tutti_gpu_array* array = NULL;
///     void* data = NULL;
///     tutti_gpu_allocate(comm, bytes, &array);
///     tutti_gpu_array_data(array, &data);
///     tutti_all_reduce(comm, data, data, count, TUTTI_F32, TUTTI_SUM, &options);    // with on_device and stream
///     tutti_gpu_array_free(array);
///
/// Agreement: allocate, register and deregister are collectives. All ranks call them, in the same order as their other
///            ones, with the same number of bytes, else TUTTI_MISMATCH. What only one rank has got wrong, such as
///            memory of the host, is TUTTI_INVALID_ARGUMENT there and TUTTI_MISMATCH on all others. Nothing has changed
///            then, and the ranks may go on. A handle or a place for a result that is NULL is refused before anything
///            is sent, so that other ranks wait.
/// Calls:     a buffer is part of the same allocation or registration on all ranks, at the same offset, or of none on
///            all ranks; else TUTTI_MISMATCH. The buffer of one part of all_gather and reduce_scatter may lie in place
///            instead, on all ranks: then the buffer of all parts begins at the same offset.
/// Graphs:    each rank destroys its graphs that have calls with shared memory, after the last launch, before any rank
///            frees or reuses it, also after the end of the communicator. Else launches write to what is there by then.
/// Threads:   one thread of a rank at a time calls these three for a communicator, as for any collective.

#include <stdint.h>

#include "tutti/c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_gpu_array tutti_gpu_array;                ///< this rank's part of an allocation
typedef struct tutti_gpu_registration tutti_gpu_registration;  ///< memory of the program's that other ranks may use

/// `bytes` for each rank, with any content: of the GPU of the communicator's calls on device memory, else of the
/// thread's current context, or of the only GPU of the machine.
TUTTI_C_API tutti_result tutti_gpu_allocate(tutti_comm* comm, uint64_t bytes, tutti_gpu_array** array);
/// *data: of the device, valid until the array is freed; NULL if it has no bytes.
TUTTI_C_API tutti_result tutti_gpu_array_data(const tutti_gpu_array* array, void** data);
/// *shared: 1 if the other ranks can use the memory. 0: it is ordinary memory of the GPU, and the log says why.
TUTTI_C_API tutti_result tutti_gpu_array_is_shared(const tutti_gpu_array* array, int32_t* shared);
/// At any time, also while calls with the memory are on their way, and after the end of the communicator. No other rank
/// has to. Memory that is not shared goes back at once, which waits for all streams of the GPU.
TUTTI_C_API tutti_result tutti_gpu_array_free(tutti_gpu_array* array);

/// Lets the other ranks use `bytes` at `data`, in one allocation of cudaMalloc(), cuMemAlloc() or a framework, which
/// stays the program's and exists until tutti_gpu_deregister() has returned, or all ranks have ended the communicator.
TUTTI_C_API tutti_result tutti_gpu_register(tutti_comm* comm, void* data, uint64_t bytes,
                                            tutti_gpu_registration** registration);
TUTTI_C_API tutti_result tutti_gpu_registration_is_shared(const tutti_gpu_registration* registration, int32_t* shared);
/// Waits for the communicator's calls on device memory. Afterwards no rank has the memory open, so that it may be
/// freed, and the handle is an empty one. If the call is refused, or calls do not end in time (TUTTI_TIMEOUT), all is
/// as before, and the ranks may try again.
TUTTI_C_API tutti_result tutti_gpu_deregister(tutti_comm* comm, tutti_gpu_registration* registration);
/// Frees the handle, at any time. If it was not deregistered, later calls do not count the memory as registered, and
/// other ranks have it open until they have ended the communicator.
TUTTI_C_API tutti_result tutti_gpu_registration_free(tutti_gpu_registration* registration);

#ifdef __cplusplus
}
#endif
