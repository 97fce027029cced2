#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// The files of one are in this folder.
struct ControlGroup {
  std::string folder;
  bool is_version_1 = false;  ///< whose files have other names
};

/// The control groups whose limits on what `controller` counts ("cpu", "pids") hold for this process: its own and all
/// that contain it, as far as they are mounted. `root` contains /proc, for tests with their own files.
std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root = {});

}  // namespace tutti
