#include "lib/collective/operation_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/internals.h"
#include "lib/collective/operation.h"

namespace tutti::detail {
namespace {

/// Without the full stop, since more text follows.
std::string_view without_stop(std::string_view sentence) {
  if (sentence.ends_with('.')) sentence.remove_suffix(1);
  return sentence;
}

std::string how_far(const Operation& operation) {
  if (operation.stream_part()) return operation.stream_part()->how_far();
  const Operation::Progress progress = operation.progress();
  if (!progress.in_rounds) return fmt::format("{} of {} steps were done here", progress.done, progress.all);
  return fmt::format("Round {} of {} was under way here", std::min(progress.done + 1, progress.all), progress.all);
}

/// Introduces the failure of an earlier call, which made the communicator unusable.
std::string since(const Error& reason, std::uint64_t number) {
  if (reason.operation() == 0 || reason.operation() >= number) return "";
  return fmt::format("the communicator failed in operation #{}: ", reason.operation());
}

/// Elements as the caller counts them; for an all_to_all_v those that this rank sends.
std::uint64_t elements(const Operation& operation) {
  const transport::Frame& frame = operation.frame();
  return is_exchange_of_counts(frame) ? operation.bound().offsets().input.back()
                                      : elements_of(frame.count, frame.variable);
}

FailureDetails details_of(const Operation& operation, const Error& reason) {
  const transport::Frame& frame = operation.frame();
  const Operation::Progress at = operation.progress();
  FailureDetails details = reason.details();
  details.collective = name_of(static_cast<Collective>(frame.collective));
  if (frame.variable) details.collective += "_v";
  details.algorithm = algorithm_text(operation.prepared().name, operation.is_in_window());
  details.data_type = name_of(static_cast<DataType>(frame.data_type));
  details.count = elements(operation);
  details.steps = at.all;
  details.steps_done = at.done;
  details.in_rounds = at.in_rounds;
  details.bytes_received = operation.bytes_received();
  return details;
}

}  // namespace

Error failure_of(const Operation& operation, const Error& reason) {
  Error error{reason.code(),
              fmt::format("{}: {}{}. {}, {} bytes received", operation.describe(), since(reason, operation.number()),
                          without_stop(reason.what()), how_far(operation), operation.bytes_received()),
              reason.rank(), operation.number()};
  Internals::set_details(error, details_of(operation, reason));
  return error;
}

}  // namespace tutti::detail
