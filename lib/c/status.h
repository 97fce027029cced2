#pragma once

#include "tutti/c.h"
#include "tutti/work.h"

namespace tutti::c_api {

inline tutti_status status_of(const MessageStatus& status) { return {status.source, status.tag, status.count}; }

}  // namespace tutti::c_api
