#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>

#include "transport/memory/single_copy.h"

namespace tutti::transport {

/// How to bring to another core what it reads. `streaming` is memcpy past the caches, with a fence at its end: a flag
/// that is set after it says the same as after plain stores. Null: there is none, or it is not wanted.
struct CopyPolicy {
  void (*streaming)(void* to, const void* from, std::size_t bytes) = nullptr;
  bool always = false;  ///< past the caches whatever the clock says
  SingleCopy single_copy = SingleCopy::measured;
  bool cores_are_shared = false;  ///< more ranks than cores
};

/// Copies payloads to where another core reads them: by plain stores or past the caches, whichever is quick there.
///
/// A line that the reader's caches still have must be taken from them first. Cores that share a cache do so in passing,
/// 32 KiB in 0.5 to 4 us; between distant ones each line takes 25 ns, so 13 us, where stores past the caches need 2.
/// Near by those are the slower ones, since the reader then has to fetch from memory. So a copy is timed now and then.
///
/// Threading: one thread at a time.
class StorePath {
 public:
  explicit StorePath(const CopyPolicy& copy_policy = {}) : copy_policy_(copy_policy) {}

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (copy_policy_.streaming && bytes >= least_bytes) return copy_long(to, from, bytes);
    std::memcpy(to, from, bytes);
  }

  // ---- The decisions by themselves
  enum class Way { plain, timed, streaming };
  /// For the next copy that is long enough to tell; after a timed one comes took().
  Way next() noexcept;
  void took(std::chrono::nanoseconds time, std::size_t bytes) noexcept;

  /// Shorter copies are plain: the clock is too coarse for them.
  static constexpr std::size_t least_bytes = 8 * 1024;
  /// The first of these is timed when every place has been touched, which may take longer than all else.
  static constexpr int first_timed = 40;
  /// Of plain copies every so many is timed, and of streaming ones every so many is a plain one, to see.
  static constexpr int timed_every = 8;
  static constexpr int tried_every = 128;
  /// More than that is slow: 4 GB/s, in the gap between the two.
  static constexpr std::chrono::nanoseconds slow_per_kib{250};

 private:
  void copy_long(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

  CopyPolicy copy_policy_;
  int until_timed_ = first_timed;
  bool suspects_ = false;  ///< the last that was timed was slow, which once may be chance
  bool streams_ = false;
};

}  // namespace tutti::transport
