#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "lib/base/clocks.h"
#include "transport/memory/single_copy.h"

namespace tutti::transport {

/// What tells how long copies take. Those of a test show what it wants.
struct CopyClocks {
  using Clock = std::chrono::nanoseconds() noexcept;
  Clock* elapsed = elapsed_time;
  Clock* processor = processor_time;   ///< where cores are shared
  std::chrono::nanoseconds reading{};  ///< of `processor`: a system call, which takes as long as a short copy

  void measure_reading() noexcept {
    reading = std::chrono::nanoseconds::max();
    for (int tries = 0; tries < 8; ++tries) {
      const auto begin = processor();
      reading = std::min(reading, processor() - begin);
    }
  }

  /// The time that `copy` takes without that of the clock (0.5 us on a Zen 4, where 32 KiB take 1.3 us); at least 1 ns.
  template <class Copy>
  std::chrono::nanoseconds time_of(bool cores_are_shared, Copy&& copy) const noexcept {
    Clock* const clock = cores_are_shared ? processor : elapsed;
    const auto begin = clock();
    copy();
    const auto taken = clock() - begin - (cores_are_shared ? reading : std::chrono::nanoseconds{});
    return std::max(taken, std::chrono::nanoseconds{1});
  }
};

using CopyFunction = void(void* to, const void* from, std::size_t bytes);

/// How to write what another core will read, and how to read that. `plain` does what memcpy does. `streaming` is a
/// memcpy with stores past the caches and a fence at its end, so that a flag set afterwards has the same meaning as
/// after plain stores. Null: not available, or disabled.
struct CopyPolicy {
  CopyFunction* plain = [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); };
  CopyFunction* streaming = nullptr;
  bool always = false;  ///< always past the caches, without timing
  SingleCopy single_copy = SingleCopy::measured;
  bool cores_are_shared = false;  ///< more ranks than cores
  CopyClocks clocks{};
};

/// Copies payloads to memory that another core reads: with plain stores or with stores past the caches, whichever is
/// faster on this machine.
///
/// A line that the reader's caches still hold must be transferred from them first. Between cores that share a cache
/// this is cheap: 32 KiB take 0.5 to 4 us. Between distant cores each line takes 25 ns, so 32 KiB take 13 us, and
/// stores past the caches need 2. On cores that share a cache, stores past the caches are the slower way, since the
/// reader then fetches from memory. So some copies are timed.
///
/// Threading: one thread at a time.
class StoreChoice {
 public:
  explicit StoreChoice(const CopyPolicy& copy_policy = {}) : copy_policy_(copy_policy) {}

  /// `is_first_use`: some of `to` has not been touched before, so that page faults count for more than the copy.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, bool is_first_use = false) noexcept {
    if (copy_policy_.streaming && bytes >= least_bytes) return copy_long(to, from, bytes, is_first_use);
    copy_policy_.plain(to, from, bytes);
  }

  /// The next copy goes to memory that has been used before, so it may be the first that is timed. Before the other way
  /// to pass a message is compared with copies into slots, those should be as fast as they can be.
  void may_begin_to_time() noexcept {
    if (!has_timed_) until_timed_ = 1;
  }

  // ---- The decisions by themselves
  enum class Way { plain, timed, streaming };
  /// How to do the next copy of at least `least_bytes`. After a timed copy, call took().
  Way next() noexcept;
  void took(std::chrono::nanoseconds time, std::size_t bytes) noexcept;

  /// Shorter copies are plain: the clock is too coarse to time them.
  static constexpr std::size_t least_bytes = 8 * 1024;
  /// Number of the first copy that is timed. By then most memory has been touched, also where nobody knows.
  static constexpr int first_timed = 72;
  /// One plain copy in `timed_every` is timed. One streaming copy in `tried_first` is done plainly and timed, then one
  /// in twice as many, up to `tried_every`: pages that were used for the first time made plain copies look slow.
  static constexpr int timed_every = 8;
  static constexpr int tried_first = 16;
  static constexpr int tried_every = 128;
  /// A plain copy that takes longer is slow. The limit, 4 GB/s, lies between the speeds of near and distant cores.
  static constexpr std::chrono::nanoseconds slow_per_kib{250};

 private:
  void copy_long(std::byte* to, const std::byte* from, std::size_t bytes, bool is_first_use) noexcept;

  CopyPolicy copy_policy_;
  int until_timed_ = first_timed;
  bool has_timed_ = false;
  bool suspects_ = false;  ///< the last timed copy was slow, which may be chance once
  bool streams_ = false;
  int tried_after_ = tried_first;  ///< streaming copies
};

}  // namespace tutti::transport
