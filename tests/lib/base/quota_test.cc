#include "lib/base/quota.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>

#include "tests/support/scratch.h"

namespace tutti::testing {
namespace {

/// What a process would see of cgroups under a folder of ours.
class Machine {
 public:
  Machine(std::initializer_list<std::pair<const char*, std::string>> files) {
    for (const auto& [path, content] : files) {
      const std::filesystem::path full = folder_.name + path;
      std::filesystem::create_directories(full.parent_path());
      std::ofstream{full} << content << "\n";
    }
  }
  int cores() const { return quota_cores(folder_.name); }

 private:
  Folder folder_;
};

const std::string unified = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate";
const std::string old_cpu = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";

}  // namespace

TEST_CASE("the quota of version 2 is the least of the cgroup's and of those above it") {
  CHECK(Machine{{"/proc/self/mountinfo", unified},
                {"/proc/self/cgroup", "0::/a/b"},
                {"/sys/fs/cgroup/a/b/cpu.max", "max 100000"},
                {"/sys/fs/cgroup/a/cpu.max", "300000 100000"}}
            .cores() == 3);
  CHECK(Machine{{"/proc/self/mountinfo", unified},
                {"/proc/self/cgroup", "0::/a/b"},
                {"/sys/fs/cgroup/a/b/cpu.max", "100000 50000"},
                {"/sys/fs/cgroup/a/cpu.max", "300000 100000"}}
            .cores() == 2);
  CHECK(Machine{{"/proc/self/mountinfo", unified}, {"/proc/self/cgroup", "0::/"}}.cores() == 0);
  CHECK(
      Machine{{"/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw"}, {"/proc/self/cgroup", "0::/"}}.cores() ==
      0);
}

TEST_CASE("part of a core counts as none, but for the first") {
  for (const auto& [quota, cores] : {std::pair{"50000 100000", 1}, {"150000 100000", 1}, {"250000 100000", 2}})
    CHECK(
        Machine{{"/proc/self/mountinfo", unified}, {"/proc/self/cgroup", "0::/a"}, {"/sys/fs/cgroup/a/cpu.max", quota}}
            .cores() == cores);
}

TEST_CASE("a container with the host's cgroup name space sees its quota at the root of the mount") {
  CHECK(Machine{{"/proc/self/mountinfo", unified},
                {"/proc/self/cgroup", "0::/system.slice/docker-4f1.scope"},
                {"/sys/fs/cgroup/cpu.max", "200000 100000"}}
            .cores() == 2);
  CHECK(Machine{{"/proc/self/mountinfo", "32 31 0:29 /docker/4f1 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu"},
                {"/proc/self/cgroup", "4:cpu:/docker/4f1/inner"},
                {"/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "100000"},
                {"/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000"},
                {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000"},
                {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"}}
            .cores() == 1);
  // A name that only begins like the mounted one is that of another group.
  CHECK(Machine{{"/proc/self/mountinfo", "32 31 0:29 /job1 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu"},
                {"/proc/self/cgroup", "4:cpu:/job12/x"},
                {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000"},
                {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"}}
            .cores() == 4);
}

TEST_CASE("the quota of version 1 is read where its controller is mounted, also beside version 2") {
  const std::string membership = "5:cpuset:/elsewhere\n4:cpu,cpuacct:/job\n0::/";
  const std::string mounts = "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" + old_cpu +
                             "\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
  const auto with = [&](const std::string& quota) {
    return Machine{{"/proc/self/mountinfo", mounts},
                   {"/proc/self/cgroup", membership},
                   {"/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", quota},
                   {"/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000"},
                   {"/sys/fs/cgroup/cpuset/elsewhere/cpu.cfs_quota_us", "100000"},
                   {"/sys/fs/cgroup/cpuset/elsewhere/cpu.cfs_period_us", "100000"}}
        .cores();
  };
  CHECK(with("200000") == 2);
  CHECK(with("-1") == 0);
}

}  // namespace tutti::testing
