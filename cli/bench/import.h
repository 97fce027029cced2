#pragma once

#include <string>
#include <vector>

#include "cli/bench/options.h"
#include "lib/base/descriptor.h"

namespace tutti::cli::bench {

/// A plan from a file to benchmark: proved, and in memory that connect() can read as a file.
class ImportedPlan {
 public:
  /// Imports `options.import`, which is not empty. Throws Error{invalid_argument} if it is wrong or for another
  /// collective, and {unsupported} if this build cannot read it.
  explicit ImportedPlan(const Options& options);

  const std::string& name() const { return name_; }
  int ranks() const { return ranks_; }
  /// For ConnectOptions::plan_file, in this process.
  std::string path() const;

 private:
  std::string name_;
  int ranks_ = 0;
  Descriptor memory_;
};

}  // namespace tutti::cli::bench
