#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/context.h"
#include "lib/engine/pending.h"

namespace tutti::detail {

/// Where a call on device memory does its work: a stream of the caller's, and its context.
class DeviceStream {
 public:
  struct Buffer {
    const char* name;  ///< "in"
    const void* data;
  };
  /// `call`: "all_reduce on rank 1 of 4". `buffers`: at least one, not empty. Throws Error{unsupported} where there is
  /// no GPU, and {invalid_argument} for memory that is not the device's: `remedy` says what to do about that.
  DeviceStream(const std::string& call, std::span<const Buffer> buffers, void* stream,
               const char* remedy = "give the range itself, without tutti::gpu::span(), or in C on_device = 0");

  /// For a rank that has no memory in the call. If the stream is a default one, its context is `otherwise`, or if that
  /// is null the thread's current one, or the first GPU's.
  DeviceStream(const std::string& call, cuda::Context otherwise, void* stream);

  cuda::Device device() const { return device_; }
  cuda::Context context() const { return context_; }
  cuda::Stream stream() const { return stream_; }
  /// For a call that gives commands to the stream: finds out who it is, and whether it is being captured. Throws
  /// Error{invalid_argument}, which begins with `call`, if it cannot be used now.
  void prepare(const std::string& call);
  // ---- After prepare()
  const cuda::KnownContext& known_context() const { return known_context_; }
  /// cuda::id_of().
  std::uint64_t id() const { return id_; }
  /// For Work::wait_on(): where a call does its work.
  Pending::OnDevice place() const { return {context_, stream_, id_, capture_.id}; }
  /// Null: the stream is not being captured into a graph.
  const cuda::Capture& capture() const { return capture_; }
  /// Throws Error{unsupported} if it is. `why` a graph cannot hold the call, and the remedy.
  void refuse_capture(const std::string& call, const std::string& why) const;
  /// False if this is the first of several GPUs only because nothing named one.
  bool is_named() const { return named_; }
  /// Whether a wait of this device's streams for a word ends when the host stores it. Tried out once for each device.
  bool can_wait_for_host() const;

 private:
  cuda::Stream stream_;
  cuda::Context context_;
  cuda::Device device_;
  bool named_ = true;
  cuda::KnownContext known_context_;
  std::uint64_t id_ = 0;
  cuda::Capture capture_;
};

/// Whether the stream of a call is still in the capture in which the call is.
bool is_in_its_capture(const Pending::OnDevice& call);
/// What is enqueued in `later` from now on comes after what is in the stream of the call. If `later` is a default
/// stream, it is that of the current context, or where there is none of the call's.
void order_streams(const Pending::OnDevice& call, cuda::Stream later);

}  // namespace tutti::detail
