#pragma once

#include <string>
#include <vector>

#include "cli/run/ranks.h"
#include "lib/base/descriptor.h"

namespace tutti::cli {

/// The trace of a job's ranks on this node. Their memory is held here, so that it survives them.
class JobTrace {
 public:
  /// `file` empty: TUTTI_TRACE_FILE decides. Creates or empties the file. Throws Error.
  explicit JobTrace(const std::string& file);

  /// Absolute; empty: no trace is wanted.
  const std::string& file() const { return file_; }
  /// Memory for a rank. Empty: none is wanted or available.
  Descriptor memory() const;
  struct Collected {
    std::string text;   ///< the message to print, or ""
    bool lost = false;  ///< it could not be written
  };
  /// Call it when ranks have ended: adds their events to the file.
  Collected collect(const std::vector<Rank>& ranks) const;

 private:
  std::string file_;
};

}  // namespace tutti::cli
