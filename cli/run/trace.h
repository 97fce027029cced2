#pragma once

#include <string>
#include <vector>

#include "cli/run/ranks.h"
#include "lib/base/descriptor.h"

namespace tutti::cli {

/// The trace of a job's ranks on this node. Their memory is held here, so that what they did is known however they end.
class JobTrace {
 public:
  /// `file` empty: as TUTTI_TRACE_FILE says, or none. Makes the file, anew. Throws Error.
  explicit JobTrace(const std::string& file);

  /// Absolute; empty: nobody wants a trace.
  const std::string& file() const { return file_; }
  /// Memory for a rank. Empty: none is wanted, or to be had.
  Descriptor memory() const;
  struct Collected {
    std::string text;   ///< what to tell, or ""
    bool lost = false;  ///< it could not be written
  };
  /// When ranks have gone: puts what they did into the file.
  Collected collect(const std::vector<Rank>& ranks) const;

 private:
  std::string file_;
};

}  // namespace tutti::cli
