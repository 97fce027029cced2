#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "lib/base/gpu/commands.h"

namespace tutti::detail {

/// Looks whether a GPU has failed, which no stream says: it just runs nothing more. The engine must not look, since the
/// driver may let no call in until the streams have ended, which may need the engine. So this has a thread of its own,
/// which begins when it is first needed.
///
/// Threading: any thread.
class DeviceWatch {
 public:
  /// `failed` gets the driver's error, on the thread of this object.
  explicit DeviceWatch(std::function<void(const std::string&)> failed) : failed_(std::move(failed)) {}
  DeviceWatch(const DeviceWatch&) = delete;
  ~DeviceWatch();

  /// Looks soon whether the GPU of `event` has failed. The event lives as long as this object.
  void look_at(const cuda::OwnEvent& event) noexcept;

 private:
  void run();

  const std::function<void(const std::string&)> failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const cuda::OwnEvent* wanted_ = nullptr;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace tutti::detail
