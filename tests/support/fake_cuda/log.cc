// What streams run, in an order that holds for all processes which write to one file.

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/support/fake_cuda/fake.h"

namespace fake_cuda {
namespace {

int open_log() {
  const char* const path = std::getenv("FAKE_CUDA_LOG");
  if (path == nullptr) return -1;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) misuse(std::string{"FAKE_CUDA_LOG cannot be written: "} + path);
  return file;
}

}  // namespace

void log(const Command& command, const char* when) {
  static const int file = open_log();
  if (file < 0 || command.kind == nullptr) return;
  char line[128];
  const int length = command.value_at == nowhere
                         ? std::snprintf(line, sizeof line, "%d %s %s\n", ::getpid(), command.kind, when)
                         : std::snprintf(line, sizeof line, "%d %s %llu %llu\n", ::getpid(), command.kind,
                                         static_cast<unsigned long long>(command.value_at),
                                         static_cast<unsigned long long>(command.value));
  // One call, so that lines of processes come one after the other.
  if (::write(file, line, static_cast<std::size_t>(length)) != length) misuse("FAKE_CUDA_LOG cannot be written");
}

}  // namespace fake_cuda
