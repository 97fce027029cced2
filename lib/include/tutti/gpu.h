#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include "tutti/export.h"
#include "tutti/types.h"

namespace tutti::gpu {
inline namespace TUTTI_ABI {

/// `size()` elements in the memory of a GPU, for the calls of Communicator:
///
///     auto gradient = tutti::gpu::span(device_pointer, count);
///     comm.all_reduce(gradient, tutti::sum, {.stream = stream});                             // waits for the result
///     tutti::Work work = comm.async().all_reduce(gradient, tutti::sum, {.stream = stream});  // returns once enqueued
///
/// It has no begin(), so that no host code reads what it cannot reach.
///
/// Memory:    what cuMemAlloc, cudaMalloc, a framework's allocator or cuMemCreate gave; all buffers of a call on one
///            GPU.
/// Order:     a call reads and writes in the order of its stream, as a kernel would. It comes after the work that is in
///            the stream already, and before the work that follows. It needs no synchronisation before or after it.
/// Default streams: null and cudaStreamLegacy are the legacy default stream, and cudaStreamPerThread is the one of the
///            thread that makes the call, or starts a prepared one; all of them in the context of the memory, and where
///            that belongs to none, as memory of cuMemCreate, in the current context, or in the primary one of the GPU
///            where none of that GPU is current. While a stream is captured that is in order with the legacy one, calls
///            in that are Error{invalid_argument}.
/// Waiting:   the ordinary form returns when the result is in device memory. async() and isend(), irecv() return once
///            their work is enqueued; the result is there for what follows in the stream, for another stream after
///            Work::wait_on(), and for the host after Work::wait(). Where ranks are threads, and where streams cannot
///            wait for the host, async() and irecv() wait for the result, and isend() waits for its stream.
/// Messages:  a send or receive begins when its stream gets to it. So the order of the calls is that of the messages
///            within a stream, or between streams that events order; else one may overtake the other.
/// Agreement: as for host memory. All ranks give device memory. A communicator's first such call also agrees how they
///            run, by host calls among its ranks. It may take some ten milliseconds, and wait for all that the GPU
///            does.
/// Ownership: the memory, the stream and its context are yours, and live until the call is done. The caller's current
///            context is the same after a call as before it.
/// Failure:   as for host memory. After an error the call may write to its output until the stream is synchronised.
///            Error{unsupported} without a GPU that can be used: why_not() says why.
/// Graphs:    while the stream is being captured, async() puts a collective into the graph, and wait() has nothing to
///            wait for. All ranks capture the same calls, and launch the same graphs in the same order. Each rank
///            destroys its graphs, and waits for their launches, before any rank frees or reuses shared memory that
///            they use, also after the end of the communicator. Else launches write to what is there by then.
///            docs/gpu.md says who owns what, and what is Error{unsupported}.
/// Streams:   the call of a rank waits in its stream for the other ranks. So ranks that use several streams or
///            communicators enqueue calls that depend on each other in the same order, as with NCCL, and in no more
///            streams at a time than CUDA_DEVICE_MAX_CONNECTIONS (8).
template <Element T>
class Span {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  static constexpr bool is_in_device_memory = true;

  constexpr Span() = default;
  constexpr Span(T* data, std::size_t size) : data_(data), size_(size) {}
  constexpr operator Span<const T>() const { return {data_, size_}; }

  constexpr T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// `count` elements from `device_pointer` on.
template <Element T>
constexpr Span<T> span(T* device_pointer, std::size_t count) {
  return {device_pointer, count};
}

/// Whether calls may take device memory here: there is a driver that can be used, and a GPU.
TUTTI_API bool available();
/// Where not, a sentence that says why; else "".
TUTTI_API std::string why_not();

}  // namespace TUTTI_ABI
}  // namespace tutti::gpu
