#pragma once

#include <string>

#include "lib/base/descriptor.h"

namespace tutti::cli {

struct NewFile {
  Descriptor descriptor;  ///< empty: it cannot be made, errno says why
  std::string path;
};

/// Never writes over a file: where there is an x.json it makes x.json.0, x.json.1 ... A device or a pipe is written to.
NewFile make_new_file(const std::string& path);

}  // namespace tutti::cli
