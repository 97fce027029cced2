#pragma once

#include <vector>

#include "cli/learn/pages.h"

namespace tutti::cli {

/// Serves the pages on a port of 127.0.0.1 that the kernel chooses, and prints their address, until a signal ends the
/// process. Every request gets a page or "not found", and nothing is read from disk. Throws Error{system} if it cannot
/// listen.
int serve_pages(const std::vector<Page>& pages);

}  // namespace tutti::cli
