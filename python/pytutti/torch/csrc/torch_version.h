#pragma once

#include <torch/version.h>

#define TUTTI_TORCH_IS(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))
