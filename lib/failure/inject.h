#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/plan.h"
#include "lib/base/system_calls.h"

namespace tutti {
class Log;
}

namespace tutti::detail {

class Pending;

/// One fault to play: what happens to which rank, and at which point. As text: `kill:rank=2,op=5,step=3`.
struct Fault {
  enum class Kind : std::uint8_t {
    kill,       ///< the process kills itself with SIGKILL
    stop,       ///< it stops itself with SIGSTOP
    exit,       ///< the thread that waits for the operation calls exit(0)
    exception,  ///< that thread throws a std::runtime_error ("throw"); the operation stays as it is
    drop,       ///< all connections of this rank are cut, as if its network were gone
    delay,      ///< the step waits
    corrupt,    ///< one byte of what the step sends is flipped on its way
    refuse,     ///< a system call fails
  };
  static constexpr std::int64_t first_step = -1;
  static constexpr std::int64_t last_step = -2;

  Kind kind{};
  int rank = -1;  ///< in the world; -1: every rank
  int group = 0;  ///< 0: the world, k: the k-th sub-group that the rank makes
  std::uint64_t operation = 1;
  std::int64_t step = first_step;  ///< number in the rank's plan, from 0; for `corrupt`, first and last mean sends
  std::uint64_t message =
      0;  ///< for `corrupt`, instead of a step: the point-to-point message that the rank sends, from 1
  std::chrono::milliseconds delay{0};
  std::optional<SystemCall> call{};  ///< for `refuse`
  int error = 0;
  unsigned nth = 0;  ///< which of these calls, from 1; 0: all of them
  std::string text;  ///< as given by the user
};

/// Parses the grammar of TUTTI_INJECT: FAULT[:key=value,...][;FAULT...]. Throws Error{invalid_argument} that offers the
/// nearest known word; messages begin with `said_by`. `ranks`: of the job.
std::vector<Fault> parse_faults(std::string_view text, int ranks, std::string_view said_by = "TUTTI_INJECT");

/// Makes the system calls fail that `faults` refuse to `rank`, in the whole process and for the rest of its life.
void refuse_system_calls(std::span<const Fault> faults, int rank);

/// Plays the faults of one rank. An operation without a fault has no injector.
///
/// Threading: for_operation() from anywhere, the rest on the thread that owns the engine.
class Injector {
 public:
  /// Null: no fault concerns an operation of `rank`.
  static std::unique_ptr<Injector> make(std::span<const Fault> faults, int rank);

  /// Where a fault can aim: at an operation, by the index of its group and its number, and a step of its plan.
  struct Target {
    int group;
    std::uint64_t operation;
    const algorithms::Plan& plan;
  };

  /// This injector if a fault aims at that operation, else null. Throws Error{invalid_argument} for a step that its
  /// plan does not have, since a fault that never happens would prove nothing.
  Injector* for_operation(const Target& target);

  /// What a fault may use beyond the operation.
  struct Surroundings {
    const Log& log;
    std::function<void()> cut_connections;
  };
  /// Called when `step` is about to run. False: it must never run. `pending`: the operation.
  bool allows(Pending& pending, const Target& target, algorithms::StepId step,
              const Surroundings& surroundings) noexcept;
  /// The bytes that `step` sends; or a copy with one bit flipped, which lives as long as this object.
  std::span<const std::byte> tampered(const Target& target, algorithms::StepId step, std::span<const std::byte> bytes);

  /// The same for a point-to-point message. It counts them over all groups.
  std::span<const std::byte> tampered(std::span<const std::byte> message);

 private:
  std::span<const std::byte> with_a_bit_flipped(std::span<const std::byte> bytes);

  std::vector<Fault> faults_;
  std::uint64_t messages_ = 0;
  std::vector<std::vector<std::byte>> copies_;
};

}  // namespace tutti::detail
