#pragma once

#include <string>
#include <vector>

#include "lib/base/descriptor.h"
#include "tools/run_ranks.h"

namespace tutti::tools {

/// The trace of a job's ranks on this node. Their memory is held here, so that what they did is known however they end.
class JobTrace {
 public:
  /// `file` empty: as TUTTI_TRACE_FILE says, or none. Makes the file, anew. Throws Error.
  explicit JobTrace(const std::string& file);

  /// Absolute; empty: nobody wants a trace.
  const std::string& file() const { return file_; }
  /// Memory for a rank. Empty: none is wanted, or to be had.
  Descriptor memory() const;
  /// When ranks have gone: puts what they did into the file. Returns what to tell, or "".
  std::string collect(const std::vector<Rank>& ranks) const;

 private:
  std::string file_;
};

}  // namespace tutti::tools
