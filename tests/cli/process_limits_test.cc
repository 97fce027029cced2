// How many processes there may still be, of a made-up /proc and /sys.

#include "cli/base/process_limits.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/support/scratch.h"

namespace tutti::cli {
namespace {

class Machine {
 public:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = folder_.name + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file} << text;
  }
  void runs(int process, int user, int threads) const {
    write("/proc/" + std::to_string(process) + "/status", "Name:\ta (b) Uid: 7\nUid:\t" + std::to_string(user) +
                                                              "\t9\t9\t9\nThreads:\t" + std::to_string(threads) +
                                                              "\nSigQ:\t1/2\n");
  }
  std::map<std::string, std::uint64_t> left(const UserLimit& user = {}) const {
    std::map<std::string, std::uint64_t> left;
    for (const ProcessLimit& limit : process_limits(user, folder_.name)) left[limit.name] = limit.left;
    return left;
  }

 private:
  testing::Folder folder_;
};

using Left = std::map<std::string, std::uint64_t>;

TEST_CASE("a user's limit leaves what the user's tasks have not taken") {
  const Machine machine;
  machine.runs(1, 0, 500);
  machine.runs(20, 1000, 1);
  machine.runs(21, 1000, 7);
  machine.write("/proc/22/status", "");  // has ended meanwhile
  machine.write("/proc/sys/status", "Uid: 1000\nThreads: 99\n");
  CHECK(machine.left({1000, 100}) == Left{{"the limit of this user's processes (ulimit -u)", 92}});
  CHECK(machine.left({1000, 5}).begin()->second == 0);
  CHECK(machine.left({1000, {}}).empty());
}

TEST_CASE("the system's limits leave what all tasks have not taken") {
  const Machine machine;
  machine.write("/proc/loadavg", "0.52 0.58 0.59 1/467 12345\n");
  machine.write("/proc/sys/kernel/pid_max", "32768\n");
  machine.write("/proc/sys/kernel/threads-max", "400\n");
  CHECK(machine.left() ==
        Left{{"the system (sysctl kernel.pid_max)", 32301}, {"the system (sysctl kernel.threads-max)", 0}});
}

TEST_CASE("every control group around a process limits it") {
  const Machine machine;
  machine.write("/proc/self/cgroup", "0::/user.slice/job/step\n");
  machine.write("/proc/self/mountinfo",
                "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
                "31 23 0:27 / /sys/fs/bpf rw - bpf bpf rw\n");
  const std::string groups = "/sys/fs/cgroup/user.slice";
  machine.write(groups + "/job/step/pids.max", "max\n");
  machine.write(groups + "/job/pids.max", "50\n");
  machine.write(groups + "/job/pids.current", "20\n");
  machine.write(groups + "/pids.max", "1000\n");
  machine.write(groups + "/pids.current", "1001\n");
  CHECK(machine.left() == Left{{"the control group (" + groups + "/job/pids.max)", 30},
                               {"the control group (" + groups + "/pids.max)", 0}});
}

TEST_CASE("a hierarchy of version 1 may count processes beside other things, and be mounted in part") {
  const Machine machine;
  machine.write("/proc/self/cgroup", "9:cpuset:/other\n8:cpu,pids:/docker/abc/inner\n1:name=systemd:/x\n0::/\n");
  machine.write("/proc/self/mountinfo",
                "33 32 0:29 / /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
                "34 32 0:30 /docker/abc /sys/fs/cgroup/cpu,pids ro master:2 - cgroup cgroup rw,cpu,pids\n");
  machine.write("/sys/fs/cgroup/cpu,pids/inner/pids.max", "10\n");
  machine.write("/sys/fs/cgroup/cpu,pids/inner/pids.current", "4\n");
  machine.write("/sys/fs/cgroup/cpu,pids/pids.max", "100\n");
  machine.write("/sys/fs/cgroup/cpu,pids/pids.current", "4\n");
  machine.write("/sys/fs/cgroup/cpuset/pids.max", "1\n");
  CHECK(machine.left() == Left{{"the control group (/sys/fs/cgroup/cpu,pids/inner/pids.max)", 6},
                               {"the control group (/sys/fs/cgroup/cpu,pids/pids.max)", 96}});
}

TEST_CASE("a group that is hidden here is limited as what is mounted") {
  const Machine machine;
  machine.write("/proc/self/cgroup", "0::/../../outside\n");
  machine.write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  machine.write("/sys/fs/cgroup/pids.max", "64\n");
  machine.write("/sys/fs/cgroup/pids.current", "60\n");
  CHECK(machine.left() == Left{{"the control group (/sys/fs/cgroup/pids.max)", 4}});
}

}  // namespace
}  // namespace tutti::cli
