#pragma once

#include <string>

#include "lib/base/descriptor.h"

namespace tutti::cli {

struct NewFile {
  Descriptor descriptor;  ///< empty: it cannot be created, errno has the reason
  std::string path;
};

/// Never overwrites a file: if x.json exists, it makes x.json.0, x.json.1 ... Devices and pipes are written to.
NewFile make_new_file(const std::string& path);

}  // namespace tutti::cli
