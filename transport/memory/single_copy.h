#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tutti::transport {

/// How long messages cross between processes of one host. `never`: through slots, where both ends copy, piece by piece
/// and at the same time. `always`: single copy, that is, the receiver reads the sender's memory, if the kernel permits
/// it (process_vm_readv). `measured`: whichever is faster.
enum class SingleCopy : std::uint8_t { measured, never, always };

/// Chooses between slots and single copy for the messages of one link, by the time that each message took, or of all
/// links of a group to one rank. Only times of tries are read from the clock, and, where ranks share no cores, those of
/// single copies.
///
/// Which way is faster depends on machine, size and traffic. If two cores share a cache, two copies at the same time
/// beat one copy by the kernel. If moving a cache line is expensive, or if both sides send and so have two copies each
/// to do, single copy wins (sendrecv of 1 MiB between 2 ranks: on a Zen 5 62 us through slots and 107 by single copy,
/// on a Xeon 201 and 66). So some messages of each size are tried both ways now and then, and the total times are
/// compared without the slowest few, which waited for something else. The trial ends early while all single copies have
/// been a tenth slower (gather of 64 MiB among 2 ranks on the Xeon: 9.6 ms with all tries, 6.8 with two). Messages that
/// are reduced on arrival never use single copy: read piece by piece from slots, the data are still in a cache (with
/// single copy a reduce took 1.3 to 2 times as long on the Xeon).
///
/// A sender times its copies while the receiver tries slots, since those that it made before the receiver saw the
/// message are part of its time. The receiver's take longer, since it has to fetch each line from the other core: taken
/// for both, they made single copy look faster where it was not. (Broadcast of data that have just been written, 2
/// ranks on a Xeon: 64 KiB 10.1 us by single copy, 7.6 through slots; 256 KiB 24.9 and 19.3.) At a root to which ranks
/// send, as in a gather, both sides copy at the same time, and only the root's copies count.
///
/// Data that the sender has not written since the last message may still be in the receiver's caches, where single copy
/// finds them, and a program may send such data first and others later. So several single copies in a row that take
/// much longer than slots did begin the next trial at once. (Broadcast of 128 KiB that have just been written, 2 ranks
/// on distant cores of a Zen 4: 86 us by single copy, 15 through slots.)
///
/// Where ranks share cores, a message waits for other ranks most of the time, so only the processor time of the copies
/// is compared, of both ends unless several ranks send to a root. A single copy must be clearly faster, since its
/// sender cannot go on before its receiver has had the core. There the trial ends early while none has been (all_to_all
/// of 16 MiB among 8 ranks on 2 cores: 8.7 ms with all tries, 5.9 with one). Messages below 2 MiB are tried four times
/// first, since the data of the first two are in no near cache. All links have one choice there, since a mixture
/// of both ways takes longer than either of them (all_to_all among 8 ranks on 2 cores of a Zen 4, 1 MiB and 4 MiB: 0.54
/// and 4.3 ms with a choice for each link, 0.46 and 3.2 with one).
///
/// Threading: one thread at a time.
class CopyChoice {
 public:
  /// `cores_are_shared`: link ends share cores with others, so what counts is work, not the time that a message takes.
  explicit CopyChoice(SingleCopy mode, bool cores_are_shared = false);

  /// For shorter messages a system call is not worthwhile.
  static constexpr std::size_t least_bytes = 16 * 1024;
  static constexpr std::size_t classes = 12;
  /// Size classes are powers of two. `bytes` is at least least_bytes; all sizes from 32 MiB on are one class.
  static constexpr std::size_t class_of(std::uint64_t bytes) {
    const auto doublings = static_cast<std::size_t>(std::bit_width(bytes) - std::bit_width(least_bytes));
    return doublings < classes ? doublings : classes - 1;
  }

  /// What the sender is to know: the size classes for which single copy is wanted, one bit each, and those for which it
  /// is to time its copies into slots (is_timed_by_sender()).
  std::uint32_t wishes() const { return wishes_; }
  static constexpr bool wants_single_copy(std::uint32_t wishes, std::uint64_t bytes) {
    return (wishes >> class_of(bytes) & 1) != 0;
  }
  static constexpr bool is_timed_by_sender(std::uint32_t wishes, std::uint64_t bytes) {
    return wants_single_copy(wishes >> classes, bytes);
  }
  /// Whether took() will use the time of a message of that size that now begins to arrive.
  bool is_trying(std::uint64_t bytes, bool single) const noexcept;
  /// Whether it will use the time of a single copy of that size outside of a trial.
  bool is_watching(std::uint64_t bytes) const noexcept;
  /// A message has arrived, and took `time`, including the sender's work before that unless this is the root of a
  /// gather. If cores are shared: copying it took `time` of the processors.
  void took(std::uint64_t bytes, bool single, std::chrono::nanoseconds time) noexcept;
  /// A message has arrived that was reduced on arrival.
  void summed(std::uint64_t bytes) noexcept;
  bool may_lend() const { return mode_ != SingleCopy::never; }

  /// How a class is tried.
  struct Trial {
    int first;    ///< messages through slots before the first try, since the first use of a slot takes page faults
    int tries;    ///< of each way
    int ignored;  ///< the slowest tries of each way
    int hopeful;  ///< single copies after which the trial ends if they leave no hope
  };
  static constexpr int most_tries = 8;
  /// Long messages are few, and each of them uses all slots. Times of copies alone differ little, so that fewer of them
  /// tell the faster way, and all ranks that share cores pay for trying the slower one.
  static constexpr Trial trial_of(std::size_t index, bool cores_are_shared) {
    const std::size_t is_long = std::size_t{cores_are_shared ? 2U : 4U} << 20;
    return index < class_of(is_long) ? Trial{8, most_tries, 2, 4} : Trial{1, 3, 1, cores_are_shared ? 1 : 2};
  }
  static constexpr int tried_every = 512;
  /// Single copies in a row, each half as long again as a message through slots, after which both ways are tried again.
  static constexpr int most_slow = 4;
  /// Messages that use slots after one that was reduced.
  static constexpr int after_sum = 64;

 private:
  struct Class {
    int come = 0;                ///< messages since the first try
    int single = 0, copied = 0;  ///< tries of each way
    std::array<std::chrono::nanoseconds, most_tries> single_took{}, copied_took{};
    std::chrono::nanoseconds copied_in_all{};  ///< of the tries through slots that count, at the last decision
    int slow = 0;                              ///< single copies in a row that took much longer than slots did
    bool single_is_faster = false;
    bool is_decided = false;
  };

  void decide(Class& one, const Trial& trial) noexcept;
  bool is_hopeless(const Class& one, const Trial& trial, std::chrono::nanoseconds copied) const noexcept;
  static bool is_slow(const Class& one, const Trial& trial, std::chrono::nanoseconds single) noexcept;
  void choose() noexcept;
  Trial trial_of(std::size_t index) const noexcept { return trial_of(index, cores_are_shared_); }

  SingleCopy mode_;
  bool cores_are_shared_;
  std::uint32_t wishes_ = 0;
  std::array<Class, classes> classes_{};
};

}  // namespace tutti::transport
