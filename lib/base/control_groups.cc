// mountinfo says which part of a hierarchy is mounted where:
//
//   31 23 0:28 /docker/4f1 /sys/fs/cgroup/cpu ro,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
//              ^ its top   ^ mounted here                            ^ version 1   ^ of these controllers
//
// and /proc/self/cgroup has the place of this process in the hierarchy: "4:cpu,cpuacct:/docker/4f1", in version 2
// "0::/a/b". In a container with the host's cgroup namespace that path may not exist; then the mounted part is the
// container's own group.

#include "lib/base/control_groups.h"

#include <fmt/format.h>

#include <fstream>
#include <optional>
#include <sstream>

namespace tutti {
namespace {

bool lists(std::string_view list, std::string_view word) {
  return fmt::format(",{},", list).find(fmt::format(",{},", word)) != std::string::npos;
}

/// The group of this process, in the hierarchy of version 2 or in that of version 1 with this controller.
std::optional<std::string> own_group(bool is_version_1, std::string_view controller, const std::string& root) {
  std::ifstream file{root + "/proc/self/cgroup"};
  for (std::string line; std::getline(file, line);) {
    const std::size_t controllers = line.find(':') + 1;
    const std::size_t path = line.find(':', controllers) + 1;
    if (controllers == 0 || path == 0) continue;
    const std::string list = line.substr(controllers, path - 1 - controllers);
    if (is_version_1 ? lists(list, controller) : list.empty()) return line.substr(path);
  }
  return std::nullopt;
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  std::ifstream file{root + "/proc/self/mountinfo"};
  for (std::string line; std::getline(file, line);) {
    std::istringstream words{line};
    std::string skipped, top, mount, type, options;
    words >> skipped >> skipped >> skipped >> top >> mount;
    while (words >> skipped && skipped != "-") continue;
    words >> type >> skipped >> options;
    const bool is_version_1 = type == "cgroup";
    if (is_version_1 ? !lists(options, controller) : type != "cgroup2") continue;
    const std::optional<std::string> group = own_group(is_version_1, controller, root);
    if (!group) continue;
    const bool below = top != "/" && (*group + '/').starts_with(top + '/');
    std::string path = below ? group->substr(top.size()) : *group;
    if (path.find("..") != std::string::npos) path.clear();  // outside of the mounted part
    for (; path.size() > 1; path.resize(path.rfind('/'))) groups.push_back({mount + path, is_version_1});
    groups.push_back({mount, is_version_1});
  }
  return groups;
}

}  // namespace tutti
