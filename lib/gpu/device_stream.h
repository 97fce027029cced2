#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/context.h"

namespace tutti::detail {

/// Where a call on device memory does its work: a stream of the caller's, and its context.
class DeviceStream {
 public:
  struct Buffer {
    const char* name;  ///< "in"
    const void* data;
  };
  /// `call`: "all_reduce on rank 1 of 4". `buffers`: at least one, not empty. Throws Error{unsupported} where there is
  /// no GPU, and {invalid_argument} for memory that is not the device's.
  DeviceStream(const std::string& call, std::span<const Buffer> buffers, void* stream);

  /// For a rank that has no memory in the call. If the stream is a default one, its context is `otherwise`, or if that
  /// is null the thread's current one, or the first GPU's.
  DeviceStream(const std::string& call, cuda::Context otherwise, void* stream);

  cuda::Device device() const { return device_; }
  cuda::Context context() const { return context_; }
  cuda::Stream stream() const { return stream_; }
  /// Null: the stream is not being captured into a graph.
  const cuda::Capture& capture() const { return capture_; }
  /// Throws Error{unsupported} if it is. `why` a graph cannot hold the call, and the remedy.
  void refuse_capture(const std::string& call, const std::string& why) const;
  /// False if this is the first of several GPUs only because nothing named one.
  bool is_named() const { return named_; }
  /// Whether a wait of this device's streams for a word ends when the host stores it. Tried out once for each device.
  bool can_wait_for_host() const;

 private:
  void find_capture(const std::string& call);

  cuda::Stream stream_;
  cuda::Context context_;
  cuda::Device device_;
  bool named_ = true;
  cuda::Capture capture_;
};

/// Whether the stream, of `context`, is still in this capture.
bool is_captured_in(cuda::Context context, cuda::Stream stream, std::uint64_t capture);
/// What is enqueued in `later` from now on comes after what is in `earlier`, a stream of `context`.
void order_streams(cuda::Context context, cuda::Stream earlier, cuda::Stream later);

}  // namespace tutti::detail
