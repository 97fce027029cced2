#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "tutti/export.h"

namespace tutti::detail {
class Internals;  // gives the library access to private members
}

namespace tutti {
inline namespace TUTTI_ABI {

/// What went wrong, and what becomes of the communicator. Calls that share memory (tutti::allocate(), gpu::allocate(),
/// gpu::register_memory(), gpu::deregister_memory()) are an exception: after their mismatch, and after the timeout of a
/// deregister_memory(), nothing has changed, and the communicator goes on.
enum class ErrorCode : std::uint8_t {
  invalid_argument,  ///< the call itself is wrong; nothing was sent, the communicator is as before
  unsupported,       ///< valid, but not supported by this build or algorithm; nothing was sent
  mismatch,          ///< ranks called different things; the communicator is unusable
  timeout,           ///< the deadline passed; the communicator is unusable, except after a probe()
  peer_lost,         ///< a rank died, left or cannot be reached; the communicator is unusable
  aborted,           ///< the communicator was destroyed or aborted with work pending; it is unusable
  rendezvous,        ///< ranks did not find each other, and there is no communicator; or a store failed
  system,            ///< the operating system refused something, such as memory; the communicator is unusable
  corrupted,         ///< data changed on its way between two ranks; the communicator is unusable
  truncated,         ///< a message did not fit into its receive and was dropped; the communicator goes on
};
inline constexpr int error_code_count = 10;

TUTTI_API const char* name_of(ErrorCode code);

/// What is known about a failed call, in fields that a program can read; what() has it in words. Unknown members are
/// empty or 0.
struct FailureDetails {
  std::string host = {};        ///< of the culprit
  std::string process = {};     ///< of the culprit, e.g. "pid 1234"
  std::string collective = {};  ///< "all_reduce", "send" ...
  std::string algorithm = {};   ///< with its parameters: "tree:4"
  std::string data_type = {};   ///< "f32"
  std::uint64_t count = 0;      ///< elements of the call
  std::uint64_t steps_done = 0;
  std::uint64_t steps = 0;  ///< of this rank's plan; or rounds, see in_rounds
  std::uint64_t bytes_received = 0;
  bool reported = false;   ///< another rank found the failure and told this one
  bool in_rounds = false;  ///< the ranks used a board: steps and steps_done count its rounds
};

/// Every failure of tutti. `what()` says who failed, what, where, how far the call had come, and the remedy.
class [[nodiscard]] TUTTI_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, int rank = -1, std::uint64_t operation = 0);
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() override;  // defined in error.cc: anchors the vtable, so that catch works across libraries

  ErrorCode code() const { return code_; }
  /// The culprit's rank in the communicator; -1 if there is none.
  int rank() const { return rank_; }
  /// Number of the call on its communicator, from 1; 0 where there is none.
  std::uint64_t operation() const { return operation_; }
  const FailureDetails& details() const;

 private:
  friend class detail::Internals;
  ErrorCode code_;
  int rank_;
  std::uint64_t operation_;
  std::shared_ptr<const FailureDetails> details_;  // shared: copies of an Error must not throw
};

}  // namespace TUTTI_ABI
}  // namespace tutti
