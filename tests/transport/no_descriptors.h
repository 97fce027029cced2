#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <cerrno>
#include <vector>

#include "lib/base/descriptor.h"

namespace tutti::transport::testing {

/// Takes all descriptors that this process may still have.
struct NoDescriptors {
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit tight{256, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &tight);
    while (Descriptor one{::open("/dev/null", O_RDONLY | O_CLOEXEC)}) taken.push_back(std::move(one));
    REQUIRE(errno == EMFILE);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before); }

  rlimit before{};
  std::vector<Descriptor> taken;
};

}  // namespace tutti::transport::testing
