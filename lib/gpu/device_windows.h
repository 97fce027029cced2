#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/base/gpu/memory.h"
#include "tutti/request.h"

namespace tutti::detail {

/// Memory of GPUs that all ranks of a communicator can use: a part for each rank, all of one size.
struct DeviceWindow {
  /// A part as this process sees it, and the object that lets it.
  struct Part {
    cuda::Address address = 0;
    std::shared_ptr<const void> owner{};
  };
  std::vector<Part> parts;   ///< by rank
  std::size_t bytes = 0;     ///< of each
  std::uint32_t number = 0;  ///< the same on all ranks, from 1 on
  /// The driver's number of this rank's allocation, which differs if the address is used again.
  std::uint64_t buffer = 0;
};

/// Where the buffers of a call lie in windows. A rule of calls says that this is the same on all ranks.
struct DeviceLocation {
  std::shared_ptr<const DeviceWindow> input, output;
  std::size_t input_offset = 0, output_offset = 0;
  std::size_t input_bytes = 0, output_bytes = 0;
  /// The buffer that has one part only is this rank's part of the other one, and so elsewhere on each rank. Its offset
  /// is that of the other one.
  bool part_in_place = false;

  /// Input and output, for which both somebody has looked, are apart from each other, since one is in a window and the
  /// other is elsewhere. The same on all ranks.
  bool is_apart() const noexcept;
  /// A hash of what must be equal on all ranks; 0 outside of windows.
  std::uint32_t hash() const noexcept;
};

/// The windows of a communicator, and what this process has open of other ranks for them. What was removed is kept
/// until drop_removed(), since streams may still use it, and since the driver may wait for all streams when it is
/// closed. Threading: any thread.
class DeviceWindows {
 public:
  /// Throws Error{invalid_argument}, which begins with `call`, if this rank's part overlaps one that is there.
  void require_free(const std::string& call, cuda::Address data, std::size_t bytes) const;
  void add(std::shared_ptr<const DeviceWindow> window, int rank);
  /// That of this number, if it is still there.
  void remove(std::uint32_t number) noexcept;
  /// Lets go of what was removed. No stream uses it any more.
  void drop_removed() noexcept;
  /// The same of this one alone: streams may use others.
  void drop_removed(std::uint32_t number) noexcept;
  /// Never lets go of anything.
  void keep_for_ever() noexcept;
  /// Lets go of all. No stream uses them any more, and there are no more calls.
  void close() noexcept;

  /// Where those buffers of a checked call are that other ranks use. Throws Error{invalid_argument}, which begins with
  /// `call`, if the program has freed the memory of one.
  DeviceLocation locate(const std::string& call, const Request& request, bool shares_input, bool shares_output,
                        int rank) const;

 private:
  std::shared_ptr<const DeviceWindow> find(const std::string& call, const void* data, std::size_t bytes,
                                           int rank) const;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const DeviceWindow>> all_;
  std::vector<std::shared_ptr<const DeviceWindow>> removed_;
  int rank_ = 0;
};

}  // namespace tutti::detail
