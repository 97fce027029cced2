#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "lib/compute/kernels.h"
#include "tutti/types.h"

// The speed of the kernels of a table, each measured in turn with a plain copy loop. Uses one thread.

namespace tutti::cli::kernel_rates {

enum class Form {
  in_place,        ///< dst op= source
  apart,           ///< dst = left op right
  streaming,       ///< apart, stored past the caches
  fold,            ///< dst = sources[0] op sources[1] ...
  fold_streaming,  ///< the same, stored past the caches
};

struct Task {
  DataType type = DataType::f32;
  OpKind op = OpKind::sum;  ///< avg: the division of sums; premul_sum: the multiplication
  Form form = Form::in_place;
  int sources = 2;  ///< of a fold
};

/// False if the table has no such kernel.
bool is_there(const compute::Table& table, const Task& task);

/// How long to measure.
struct Effort {
  int repetitions = 5;
  double seconds = 0.005;  ///< of calls back to back per repetition, of kernel and copy each; one call at least
};

/// GB/s: bytes of dst per second, for a fold of n sources n - 1 times as many. So a combine counts like a copy of the
/// same length, although it reads twice as much.
struct Rate {
  double kernel = 0;  ///< median of the repetitions
  double copy = 0;
  double ratio = 0;  ///< median of the ratios of the repetitions
};

/// Buffers of one length for all tasks with up to `sources` sources.
class Bench {
 public:
  /// Throws Error{unsupported} if the machine has too little memory.
  Bench(const compute::Table& table, std::size_t bytes, int sources);
  std::size_t bytes() const { return bytes_; }
  /// Only if is_there().
  Rate measure(const Task& task, const Effort& effort);

 private:
  struct Release {
    void operator()(std::byte* memory) const;
  };
  using Buffer = std::unique_ptr<std::byte[], Release>;

  void fill(DataType type);
  void call(const Task& task);

  const compute::Table& table_;
  std::size_t bytes_;
  std::vector<Buffer> buffers_;  ///< dst, then the sources
  std::vector<const void*> sources_;
};

}  // namespace tutti::cli::kernel_rates
