#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/support/fake_cuda/fake.h"

namespace fake_cuda {
namespace {

int number(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

bool has_word(const char* list, const char* word) {
  const std::string all = std::string{","} + (list == nullptr ? "" : list) + ",";
  return all.find(std::string{","} + word + ",") != std::string::npos;
}

Settings read_settings() {
  Settings found;
  found.devices = number("FAKE_CUDA_DEVICES", 1);
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    int shown = visible[0] != 0 && visible[0] != '-' ? 1 : 0;
    for (const char* at = visible; *at != 0; ++at) shown += *at == ',';
    found.devices = std::min(found.devices, shown);
  }
  found.version = number("FAKE_CUDA_VERSION", 13000);
  found.capability = number("FAKE_CUDA_CAPABILITY", 90);
  const char* const without = std::getenv("FAKE_CUDA_WITHOUT");
  found.memory_operations = !has_word(without, "memop");
  found.virtual_memory = !has_word(without, "vmm");
  found.legacy_ipc = !has_word(without, "ipc");
  found.peer_access = !has_word(without, "peer");
  const char* const pending = std::getenv("FAKE_CUDA_PENDING");
  found.abort_if_pending = pending != nullptr && std::strcmp(pending, "abort") == 0;
  found.cpu_wakes = number("FAKE_CUDA_CPU_WAKES", 1) != 0;
  found.reuse_handles = number("FAKE_CUDA_REUSE_HANDLES", 0) != 0;
  found.queues = std::max(1, number("CUDA_DEVICE_MAX_CONNECTIONS", 8));
  found.queue_length = static_cast<std::size_t>(std::max(1, number("FAKE_CUDA_QUEUE", 1024)));
  if (const char* const missing = std::getenv("FAKE_CUDA_MISSING")) found.missing = missing;
  return found;
}

struct Fault {
  std::string text;
  std::string function;
  long nth = 0;  // 0: every call
  Result result = Result::success;
  long calls = 0;
  bool came = false;
};

/// "cuMemCreate@2=2;cuLaunchKernel@*=700"
std::vector<Fault> read_faults() {
  std::vector<Fault> found;
  const char* const text = std::getenv("FAKE_CUDA_FAIL");
  std::string rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::string one = rest.substr(0, rest.find(';'));
    rest = one.size() == rest.size() ? "" : rest.substr(one.size() + 1);
    const std::size_t at = one.find('@');
    const std::size_t is = one.find('=');
    if (at == std::string::npos || is == std::string::npos) misuse("FAKE_CUDA_FAIL has a fault without @ or =: " + one);
    found.push_back({one, one.substr(0, at), std::atol(one.c_str() + at + 1),
                     static_cast<Result>(std::atoi(one.c_str() + is + 1))});
  }
  return found;
}

struct Faults {
  std::mutex mutex;
  std::vector<Fault> all = read_faults();
};

Faults& all_faults() {
  static Faults& all = *new Faults;
  return all;
}

/// A line for the test that has planned the fault. It is there also if the process is killed right afterwards.
void tell(const Fault& fault, const std::string& what) {
  const char* const path = std::getenv("FAKE_CUDA_FAULTS");
  if (path == nullptr) return;
  std::FILE* const file = std::fopen(path, "a");
  if (file == nullptr) misuse(std::string{"FAKE_CUDA_FAULTS cannot be written: "} + path);
  std::fprintf(file, "%s %s\n", fault.text.c_str(), what.c_str());
  std::fclose(file);
}

void tell_at_exit() {
  Faults& faults = all_faults();
  const std::lock_guard lock{faults.mutex};
  for (const Fault& fault : faults.all)
    if (!fault.came) tell(fault, "did not come in " + std::to_string(fault.calls) + " calls");
}

struct Signal {
  int number = 0;
  std::uint64_t nth = 0;  // 0: none
};

/// "9@40"
Signal read_signal() {
  const char* const text = std::getenv("FAKE_CUDA_SIGNAL");
  if (text == nullptr) return {};
  const char* const at = std::strchr(text, '@');
  if (at == nullptr) misuse(std::string{"FAKE_CUDA_SIGNAL has no @: "} + text);
  return {std::atoi(text), static_cast<std::uint64_t>(std::atol(at + 1))};
}

std::atomic<std::uint64_t> commands_run{0};

}  // namespace

void count_command() {
  static const Signal signal = read_signal();
  if (++commands_run == signal.nth) ::kill(::getpid(), signal.number);
}

const Settings& settings() {
  static const Settings& read = *new Settings(read_settings());
  return read;
}

Result injected(const char* function) {
  Faults& faults = all_faults();
  const std::lock_guard lock{faults.mutex};
  if (faults.all.empty()) return Result::success;
  static const bool tells_at_exit = std::atexit(tell_at_exit) == 0;
  if (!tells_at_exit) misuse("std::atexit() refuses");
  Result result = Result::success;
  for (Fault& fault : faults.all) {
    if (fault.function != function && fault.function != "*") continue;
    ++fault.calls;
    if (fault.nth != 0 && fault.nth != fault.calls) continue;
    result = fault.result;
    if (!std::exchange(fault.came, true)) tell(fault, "came");
  }
  return result;
}

void misuse(const std::string& what) {
  std::fprintf(stderr, "fake_cuda: %s\n", what.c_str());
  void* frames[48];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, 48), STDERR_FILENO);
  std::abort();
}

}  // namespace fake_cuda

extern "C" __attribute__((visibility("default"))) std::uint64_t fake_cuda_fail_next(const char* function, int result) {
  fake_cuda::Faults& faults = fake_cuda::all_faults();
  const std::lock_guard lock{faults.mutex};
  faults.all.push_back(
      {.text = function, .function = function, .nth = 1, .result = static_cast<fake_cuda::Result>(result)});
  return faults.all.size();
}

extern "C" __attribute__((visibility("default"))) std::uint64_t fake_cuda_commands_run() {
  return fake_cuda::commands_run;
}
