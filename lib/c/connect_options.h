#pragma once

#include "tutti/c.h"
#include "tutti/options.h"
#include "tutti/store.h"

namespace tutti::c_api {

/// The program's options, or the defaults.
tutti_connect_options given_options(const tutti_connect_options* options);

/// The same for C++, without id and all_gather. Throws Wrong if they contradict themselves.
ConnectOptions cpp_options(const tutti_connect_options& options);

Store::Milliseconds setup_timeout(const tutti_connect_options& options);

}  // namespace tutti::c_api
