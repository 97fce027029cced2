#pragma once

#include <cstddef>
#include <span>

#include "algorithms/window_program.h"
#include "lib/board/window.h"
#include "lib/collective/arithmetic.h"
#include "lib/collective/call_buffers.h"
#include "transport/memory/board.h"

namespace tutti::detail {

/// A collective whose buffers lie in allocated memory. It takes two rounds. In the first one each rank posts the
/// offsets of its buffers and, once all have come, does its tasks; the second one says that all ranks have done theirs.
class WindowCall {
 public:
  static constexpr int rounds = 2;

  /// Not in a window: given() is false.
  WindowCall() = default;
  WindowCall(const algorithms::WindowProgram& program, const WindowLocation& location, int rank, int pipeline)
      : program_(&program), location_(location), rank_(rank), pipeline_(pipeline) {}

  bool given() const { return program_ != nullptr; }
  std::span<const int> others() const { return program_->others; }
  std::size_t size_of_round(int round) const { return round == 0 ? sizeof(WindowLocation::Offsets) : 0; }
  std::size_t put(std::byte* room, int round) const noexcept;
  /// Does the tasks of this rank; returns how many bytes it has read from other ranks, or written to them.
  std::size_t take(const transport::Board& board, const CallBuffers& buffers, const Arithmetic& arithmetic,
                   compute::Copy copy) const noexcept;

 private:
  using Task = algorithms::WindowProgram::Task;

  std::byte* find(const transport::Board& board, const CallBuffers& buffers, int rank,
                  const algorithms::Blocks& blocks) const;
  std::size_t run(const transport::Board& board, const CallBuffers& buffers, const Arithmetic& arithmetic,
                  compute::Copy copy, const Task& task) const noexcept;

  const algorithms::WindowProgram* program_ = nullptr;
  WindowLocation location_;
  int rank_ = 0;
  int pipeline_ = 1;
};

}  // namespace tutti::detail
