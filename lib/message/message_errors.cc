#include "lib/message/message_errors.h"

#include <fmt/format.h>

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

}  // namespace

Error does_not_fit(const Group& group, const Message& receive, const Envelope& envelope) {
  const char* const type = name_of(envelope.type);
  const bool same_type = receive.type == envelope.type;
  const std::size_t elements = envelope.length / size_of(envelope.type);
  Error error{
      ErrorCode::truncated,
      fmt::format("{} on rank {} of {}: {} sent {} x {} with tag {}, which does not fit. That message is "
                  "dropped, and the communicator goes on: receive it {}",
                  receive.describe(), group.rank(), group.size(), group.name_of(envelope.source), elements, type,
                  envelope.tag, same_type ? fmt::format("into {} elements", elements) : fmt::format("as {}", type)),
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
