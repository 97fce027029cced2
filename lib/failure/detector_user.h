#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lib/failure/control_message.h"

namespace tutti::detail {

struct WatchSettings {
  std::chrono::milliseconds beat{1000};    ///< between heartbeats
  std::chrono::milliseconds lost{10'000};  ///< silence after which a rank is given up
};

/// How others reach a rank's failure detector, and what the rank is called in messages.
struct Watched {
  std::string address;
  std::string name;  ///< "rank 2 (host a, pid 123)"
};

/// The part of a rank that is told of failures, and asked. Called on the failure detector's thread.
class DetectorUser {
 public:
  /// Something failed, here or elsewhere. The same may be told twice.
  virtual void failed(const Failure& failure) noexcept = 0;
  /// Half of the silence after which a rank counts as lost is over.
  virtual void suspected(const std::string& text) noexcept = 0;
  /// The processes of these ranks have ended, on purpose as far as it is known: an operation that waits for one should
  /// ask.
  virtual void departed(const std::vector<int>& ranks) noexcept = 0;
  /// How is it here? Nothing if that cannot be found out within a fraction of a second.
  virtual std::optional<Status> status(const Report& about) noexcept = 0;

 protected:
  ~DetectorUser() = default;
};

}  // namespace tutti::detail
