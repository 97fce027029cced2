#include "cli/tune/gpus.h"

#include <errno.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "cli/base/gpu_driver.h"
#include "cli/base/usage_error.h"
#include "lib/api/runners.h"
#include "lib/base/descriptor.h"
#include "lib/base/gpu/driver.h"
#include "lib/compute/gpu/image.h"
#include "tutti/error.h"

namespace tutti::cli::tune {
namespace {

/// A line with why calls cannot be measured, empty if they can; then lines of Gpus.
std::string told_by_driver() {
  if (!cuda::available()) return cuda::why_not() + "\n";
  const cuda::DeviceFacts facts = cuda::facts_of(0);
  if (!facts.memory_operations || !facts.virtual_memory)
    return fmt::format(
        "{} lacks what calls on its streams need, so that all calls are staged and there is nothing to "
        "choose; tutti doctor says what\n",
        facts.name);
  return fmt::format("\n{}\n{}\n", cuda::driver().devices, gpus_text());
}

/// What a child by fork() said.
std::string told_by_child() {
  int ends[2];
  if (::pipe(ends) != 0) throw Error{ErrorCode::system, fmt::format("tune: pipe: {}", std::strerror(errno))};
  const Descriptor read{ends[0]};
  Descriptor write{ends[1]};
  const pid_t child = ::fork();
  if (child < 0) throw Error{ErrorCode::system, fmt::format("tune: fork: {}", std::strerror(errno))};
  if (child == 0) {
    std::string text;
    try {
      text = told_by_driver();
    } catch (const std::exception& error) {
      text = std::string{error.what()} + "\n";
    }
    const ssize_t written = ::write(write.get(), text.data(), text.size());
    std::_Exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  write.reset();
  std::string said;
  char piece[512];
  for (ssize_t count = 0; (count = ::read(read.get(), piece, sizeof piece)) > 0;)
    said.append(piece, static_cast<std::size_t>(count));
  ::waitpid(child, nullptr, 0);
  return said;
}

}  // namespace

Gpus look_at_gpus() {
  std::istringstream lines{told_by_child()};
  Gpus gpus;
  std::string why_not, count;
  std::getline(lines, why_not);
  if (std::getline(lines, count) && std::getline(lines, gpus.text)) gpus.count = std::stoi(count);
  if (gpus.count > 0 && compute::gpu::image().empty())
    throw Error{ErrorCode::unsupported,
                "tune: --on gpu needs the kernels that combine on GPUs, and this program was built without them; "
                "tools/quickstart --gpu builds one with them"};
  if (gpus.count > 0) return gpus;
  if (why_not.empty()) why_not = "the process that asked the driver ended without an answer; tutti doctor asks it, too";
  throw Error{ErrorCode::unsupported, "tune: --on gpu needs a GPU: " + why_not};
}

std::vector<std::string> kinds_of(std::span<const std::string> wanted, int ranks, const Gpus& gpus) {
  const bool few = ranks <= detail::most_sharing;
  if (wanted.empty()) return {std::string{!few ? links_kind : ranks <= gpus.count ? peers_kind : leader_kind}};
  for (const std::string& kind : wanted) {
    if (kind == links_kind) continue;
    if (!few)
      wrong("tune", fmt::format("{} is for up to {} ranks, not {}: give fewer (-g), or --transport {}", kind,
                                detail::most_sharing, ranks, links_kind));
    if (kind == peers_kind && ranks > gpus.count)
      wrong("tune",
            fmt::format("{} needs a GPU for each of {} ranks, and there {}: give fewer ranks (-g), or --transport {}",
                        kind, ranks, gpus.count == 1 ? "is 1" : fmt::format("are {}", gpus.count), leader_kind));
  }
  return {wanted.begin(), wanted.end()};
}

int gpu_of_rank(std::string_view kind, int rank, int ranks, int gpus) {
  return kind == leader_kind && ranks <= gpus ? 0 : rank % gpus;
}

}  // namespace tutti::cli::tune
