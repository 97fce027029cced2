#pragma once

#include "lib/message/envelope.h"
#include "lib/message/message.h"
#include "tutti/error.h"

namespace tutti::detail {

class Group;

/// The error of a receive whose message is longer, of another type, or no whole number of its elements.
Error does_not_fit(const Group& group, const Message& receive, const Envelope& envelope);
/// The group's failure, described from the point of view of this call.
Error failure_of(const Group& group, const MessageCall& call, const Error& reason);

}  // namespace tutti::detail
