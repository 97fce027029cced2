#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "cli/bench/data.h"
#include "cli/bench/device_copy.h"
#include "cli/bench/names.h"
#include "cli/bench/numbers.h"
#include "lib/base/collective_traits.h"
#include "tutti/allocate.h"
#include "tutti/communicator.h"

namespace tutti::cli::bench {

enum class Placement { out_of_place, in_place };

/// One row of the table on this rank, without its buffers.
struct Row {
  MeasuredCall what = Collective::all_reduce;
  NamedType type;
  NamedOp op;
  int root = 0;
  Shape shape;
  std::string algorithm;
  std::chrono::milliseconds timeout{0};
  std::size_t unalign = 0;  ///< elements before the first of each buffer

  std::size_t element() const { return size_of(type.type); }
  /// The size column.
  std::size_t bytes() const { return shape.largest * element(); }
};

/// Two buffers, allocated and touched once, that all rows share.
class Buffers {
 public:
  /// Throws Error{system} if the memory is not available.
  explicit Buffers(std::size_t bytes_each);
  /// In memory that all ranks of `comm` see; all ranks call.
  Buffers(std::size_t bytes_each, Communicator& comm);

  /// The calls get a copy in the memory of a GPU.
  void put_on_gpu(int local_rank) { on_gpu_ = std::make_unique<DeviceCopy>(memory_, 2 * stride_, local_rank); }

  std::byte* send() const { return memory_; }
  std::byte* recv() const { return memory_ + stride_; }
  /// Null: the calls get this memory itself.
  const DeviceCopy* on_gpu() const { return on_gpu_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::size_t stride_;
  std::unique_ptr<std::byte, Free> own_;
  std::optional<SharedArray<std::uint8_t>> shared_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<DeviceCopy> on_gpu_;
};

/// Runs a row on given buffers: fills, calls, checks.
class Case {
 public:
  Case(Communicator& comm, const Buffers& buffers, Row row);

  const Row& row() const { return row_; }
  int ranks() const { return ranks_; }
  void use_algorithm(std::string name) { options_.algorithm = row_.algorithm = std::move(name); }
  /// Sets the input and poisons the memory that the call must write.
  void prepare(Placement placement, int repetition);
  /// The call that is timed. Throws Error.
  void call(Placement placement);
  /// The algorithm of a call that names none; empty if there is none.
  std::string chosen_algorithm() const;
  /// Elements on this rank that differ from the expected result of the repetition.
  std::size_t count_wrong(Placement placement, int repetition) const;

 private:
  /// The arguments of the API: empty if this rank has no data to send or receive.
  struct Placed {
    std::span<std::byte> input;
    std::span<std::byte> output;
  };

  Placed placed(Placement placement) const;
  void copy_before_broadcast(const Placed& buffers) const;
  std::span<std::byte> send(Placement placement) const;
  std::span<std::byte> recv(Placement placement) const;
  Reduction reduction() const;
  Pattern from(int rank, int repetition) const;
  const detail::CollectiveTraits& traits() const;
  bool has(const detail::BufferTraits& buffer) const;
  std::size_t wrong_blocks(std::span<const std::byte> output, int repetition) const;
  /// Calls `work` with what makes the API's argument of the bytes of a buffer.
  template <class Work>
  void with_arguments(const Work& work) const;
  template <class AsArgument>
  void call_with(Placement placement, const AsArgument& as_argument);
  template <class Data>
  void exchange(Data input, Data output);

  Communicator* comm_;
  const Buffers* buffers_;
  Row row_;
  int rank_;
  int ranks_;
  // Prepared before the clock runs.
  Op op_;
  CallOptions options_;
  Placed in_place_;
  Placed out_of_place_;
};

}  // namespace tutti::cli::bench
