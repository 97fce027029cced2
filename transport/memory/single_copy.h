#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tutti::transport {

/// How long messages cross between processes of one host. `never`: through slots, copied by both ends, piece by piece
/// at the same time. `always`: lent, and read by the receiver alone out of the sender's memory, where the kernel lets
/// it (process_vm_readv). `measured`: whichever is quicker.
enum class SingleCopy : std::uint8_t { measured, never, always };

/// Chooses for the messages that come on one link, by the time that each took.
///
/// Which is quicker depends on machine, size and traffic. Two copies at once by two cores that share a cache beat one
/// by the kernel; where lines are dear, or both sides send and so have two copies each to do, it is the other way round
/// (sendrecv of 1 MiB between 2 ranks: on a Zen 5 62 us through slots and 107 lent, on a Xeon 201 and 66). So now and
/// then some messages of each size are tried both ways, and what most of them took together is compared; the slowest
/// few waited for something else. What is summed is better taken piece by piece from slots, where it is hot in a cache:
/// lent, a reduce took 1.3 to 2 times as long on the Xeon, so where messages are summed none are lent.
///
/// Threading: one thread at a time.
class CopyChoice {
 public:
  /// `cores_are_shared`: ends of links share cores with others, so that what counts is the work of both ends, and not
  /// how long it takes them side by side.
  explicit CopyChoice(SingleCopy mode, bool cores_are_shared = false);

  /// Shorter ones are not worth a system call.
  static constexpr std::size_t least_bytes = 64 * 1024;
  static constexpr std::size_t classes = 10;
  /// Sizes are told apart by powers of two; `bytes` is least_bytes or more, and from 32 MiB on all are alike.
  static constexpr std::size_t class_of(std::uint64_t bytes) {
    const auto doublings = static_cast<std::size_t>(std::bit_width(bytes) - std::bit_width(least_bytes));
    return doublings < classes ? doublings : classes - 1;
  }

  /// The classes of which messages should be lent, a bit each.
  std::uint32_t wishes() const { return wishes_; }
  /// A message has come, and took so long, what its sender had done before included.
  void took(std::uint64_t bytes, bool lent, std::chrono::nanoseconds time) noexcept;
  /// One has come that was summed.
  void summed(std::uint64_t bytes) noexcept;
  /// The sender's memory cannot be read.
  void give_up() noexcept;
  bool may_lend() const { return mode_ != SingleCopy::never; }

  /// How a class is tried.
  struct Trial {
    int first;    ///< so many are copied through slots before: until then these are touched for the first time
    int tries;    ///< of each way
    int ignored;  ///< of those, the slowest
  };
  static constexpr int most_tries = 8;
  /// Messages from 4 MiB on are few, and each goes through all slots.
  static constexpr Trial trial_of(std::size_t index) {
    return index < class_of(std::size_t{4} << 20) ? Trial{8, most_tries, 2} : Trial{1, 3, 1};
  }
  static constexpr int tried_every = 512;
  /// So many come through slots after one that was summed.
  static constexpr int after_sum = 64;

 private:
  struct Class {
    int come = 0;              ///< messages, since the first of those that are tried
    int lent = 0, copied = 0;  ///< of those that were tried
    std::array<std::chrono::nanoseconds, most_tries> lent_took{}, copied_took{};
    bool lent_is_quicker = false;
    bool is_decided = false;
  };

  void decide(Class& one, const Trial& trial) noexcept;
  void choose() noexcept;

  SingleCopy mode_;
  int copying_counts_;  ///< so many times
  std::uint32_t wishes_ = 0;
  std::array<Class, classes> classes_{};
};

}  // namespace tutti::transport
