#pragma once

#include <vector>

#include "cli/learn/pages.h"

namespace tutti::cli {

/// Serves the pages on a port of 127.0.0.1 that the kernel chooses, and prints their address, until a signal ends the
/// process. Whoever connects gets a page or "not found": nothing is read from disk. Throws Error{system} where it
/// cannot listen.
int serve_pages(const std::vector<Page>& pages);

}  // namespace tutti::cli
