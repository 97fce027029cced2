#include "lib/message/message_errors.h"

#include <fmt/format.h>

#include <string>

#include "lib/base/internals.h"
#include "lib/group/group.h"

namespace tutti::detail {
namespace {

FailureDetails with_call(FailureDetails details, const MessageCall& call) {
  details.collective = call.name();
  details.data_type = name_of(call.type);
  details.count = call.count;
  return details;
}

/// What to do instead, in elements of the caller's.
std::string remedy(const Message& receive, const Envelope& envelope) {
  if (receive.type != envelope.type) return fmt::format("receive it as {}", name_of(envelope.type));
  const std::size_t bytes = receive.unit * size_of(receive.type);
  if (envelope.length % bytes != 0)
    return fmt::format("its {} bytes are no whole number of elements of {} bytes, so send and receive the same type",
                       envelope.length, bytes);
  return fmt::format("receive it into {} elements{}", envelope.length / bytes,
                     receive.unit == 1 ? "" : fmt::format(" of {} bytes", bytes));
}

}  // namespace

Error does_not_fit(const Group& group, const Message& receive, const Envelope& envelope) {
  const char* const type = name_of(envelope.type);
  const std::size_t elements = envelope.length / size_of(envelope.type);
  Error error{ErrorCode::truncated,
              fmt::format("{} on rank {} of {}: {} sent {} x {} with tag {}, which does not fit. That message is "
                          "dropped, and the communicator goes on: {}",
                          receive.describe(), group.rank(), group.size(), group.name_of(envelope.source), elements,
                          type, envelope.tag, remedy(receive, envelope)),
              envelope.source};
  Internals::set_details(error, with_call({}, receive));
  return error;
}

Error failure_of(const Group& group, const MessageCall& call, const Error& reason) {
  Error error{reason.code(),
              fmt::format("{} on rank {} of {}: {}", call.describe(), group.rank(), group.size(), reason.what()),
              reason.rank(), reason.operation()};
  Internals::set_details(error, with_call(reason.details(), call));
  return error;
}

}  // namespace tutti::detail
