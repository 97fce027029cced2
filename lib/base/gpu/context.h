#pragma once

#include <compare>
#include <cstdint>
#include <utility>

#include "lib/base/gpu/driver.h"

namespace tutti::cuda {

/// A device's primary context, which the runtime API and PyTorch use as well; kept alive as long as this object.
class PrimaryContext {
 public:
  explicit PrimaryContext(Device device);
  PrimaryContext(PrimaryContext&& other) noexcept
      : device_(other.device_), context_(std::exchange(other.context_, nullptr)) {}
  PrimaryContext& operator=(PrimaryContext&&) = delete;
  ~PrimaryContext();

  Device device() const { return device_; }
  Context get() const { return context_; }

 private:
  Device device_;
  Context context_ = nullptr;
};

/// The primary context of a device, which is kept alive from then on as long as this process lives. Threading: any.
Context kept_primary_context(Device device);

/// A context that may end before this object, since the program destroys it or resets its device. Another one may then
/// have its pointer, so the driver's number tells them apart.
class KnownContext {
 public:
  KnownContext() = default;
  explicit KnownContext(Context context);

  Context get() const { return context_; }
  /// False also in a child of fork(), and for none.
  bool exists() const noexcept;
  auto operator<=>(const KnownContext& other) const { return id_ <=> other.id_; }
  bool operator==(const KnownContext& other) const { return id_ == other.id_; }

 private:
  Context context_ = nullptr;
  unsigned long long id_ = 0;
};

/// Makes a context the calling thread's current one for as long as this object lives. Objects of one thread end in
/// reverse order, as local variables do; then the thread has the context that it had.
class [[nodiscard]] Current {
 public:
  explicit Current(Context context) { driver().cuCtxPushCurrent(context); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current();
};

/// While it exists, this thread may make calls that are not for streams that are captured, such as allocations, though
/// streams are captured, by whichever thread. Otherwise the driver refuses them, and the captures are worthless.
class KnowsOfCapture {
 public:
  KnowsOfCapture();
  KnowsOfCapture(const KnowsOfCapture&) = delete;
  KnowsOfCapture& operator=(const KnowsOfCapture&) = delete;
  ~KnowsOfCapture();

 private:
  CaptureMode before_ = CaptureMode::relaxed;
};

/// Whether it is one of the default streams, which every context has.
bool is_default(Stream stream);

/// The number of a stream that has no other one's, as long as the process lives. Handles come again, and the default
/// streams have one each for all contexts and threads: for those it is the one of the current context and this thread.
std::uint64_t id_of(Stream stream);

/// The context to which a call belongs: that of its stream or, if the stream is one of the default streams, which every
/// context has, that of its memory. Throws Error{invalid_argument} if neither belongs to one.
Context context_of(Stream stream, Address memory);

/// The same of a stream that has no memory with it: if it is a default one, the current context. Null: there is none.
Context context_of(Stream stream);

/// The device of a context.
Device device_of(Context context);

}  // namespace tutti::cuda
