#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "lib/failure/control_message.h"

namespace tutti::detail {

struct WatchSettings {
  std::chrono::milliseconds beat{1000};    ///< between heartbeats
  std::chrono::milliseconds lost{10'000};  ///< silence after which a rank counts as lost
};

/// How to reach a rank's failure detector, and the rank's name in messages.
struct Watched {
  std::string address;
  std::string name;  ///< "rank 2 (host a, pid 123)"
};

/// The part of a rank that is told of failures, and asked about calls. Called on the failure detector's thread, which
/// must go on listening and sending heartbeats: no function may wait for anything.
class DetectorUser {
 public:
  /// Something has failed, here or elsewhere. The same failure may be told twice.
  virtual void failed(const Failure& failure) noexcept = 0;
  /// A rank has been silent for half the time after which it counts as lost; `text` is the warning.
  virtual void suspected(const std::string& text) noexcept = 0;
  /// The processes of these ranks have ended, as far as is known on purpose. An operation that waits for one of them
  /// should ask.
  virtual void departed(const std::vector<int>& ranks) noexcept = 0;
  using Reply = std::function<void(const Status&)>;
  /// Asks what this rank knows about a report. `reply` may be called at any time, on any thread, as long as the failure
  /// detector exists. The coordinator hears it if it comes within a fraction of a second.
  virtual void status(const Report& about, Reply reply) noexcept = 0;

 protected:
  ~DetectorUser() = default;
};

}  // namespace tutti::detail
