#include "cli/bench/import.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/plan/interchange/import.h"
#include "lib/base/system_calls.h"
#include "tutti/error.h"

namespace tutti::cli::bench {

ImportedPlan::ImportedPlan(const Options& options) {
  const algorithms::CheckedPlans imported = interchange::import_file("bench", options.import);
  interchange::require_right("bench", options.import, imported.verdict);
  const algorithms::GivenPlans& given = imported.given;
  if (options.what == measure::send_recv || options.what.collective != given.collective)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("bench: {} is a plan for {}", options.import, tutti::name_of(given.collective))};
  name_ = given.name;
  ranks_ = given.plans.front().shape.ranks;
  const std::string text = algorithms::write_plans(given);
  memory_ = Descriptor{system_calls::memfd_create("tutti-plan", MFD_CLOEXEC)};
  for (std::size_t done = 0; memory_ && done < text.size();) {
    const ssize_t written = ::write(memory_.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) memory_ = Descriptor{};
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  if (!memory_) throw Error{ErrorCode::system, fmt::format("bench: no memory for the plan: {}", std::strerror(errno))};
}

std::string ImportedPlan::path() const { return fmt::format("/proc/self/fd/{}", memory_.get()); }

}  // namespace tutti::cli::bench
