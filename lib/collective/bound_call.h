#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/board/board_call.h"
#include "lib/board/window.h"
#include "lib/collective/arithmetic.h"
#include "lib/collective/binding.h"
#include "lib/collective/call.h"
#include "lib/collective/call_buffers.h"
#include "lib/collective/planner.h"

namespace tutti::detail {

/// How a call is to be carried out.
struct Planned {
  const Prepared& prepared;
  bool on_board;
  WindowLocation location;
};

/// Memory that only grows, since the next call rarely needs more.
class ScratchMemory {
 public:
  /// `bytes` bytes, aligned to a cache line. Growing loses the contents.
  std::byte* get(std::size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

/// A call bound to memory: knows where the bytes of each step lie, and computes. On a board a BoardCall does that
/// instead.
///
/// An average sends contributions in place of elements. A block's contribution is made when it is first sent.
class BoundCall {
 public:
  /// Binds a checked request. `ground.capacity` is 0 without a board. A persistent request stays bound for its next
  /// start. The input is not read yet.
  void bind(const Request& request, const Planned& planned, const BoardCall::Ground& ground);
  /// Whether the plan reads a copy instead of the input: contributions that are multiplied beforehand, parts that would
  /// be overwritten before they are sent, or the tokens of a barrier.
  static bool stages(const Request& request) noexcept;
  /// A barrier that stands for a _v call has its counts.
  void stand_for(PartOffsets offsets) { offsets_ = std::move(offsets); }
  /// Called at each start, before the first step, once the input is there.
  void begin();
  /// Called when the call is over. Keeps the memory.
  void release() noexcept;

  /// Null: the plan runs step by step, over links.
  const BoardCall* board() const { return board_ ? &*board_ : nullptr; }
  const Prepared& prepared() const { return *prepared_; }
  const algorithms::Plan& plan() const { return prepared_->plan; }
  /// For a _v call: the offsets of the parts of its input, and of its output in an all_to_all_v.
  const PartOffsets& offsets() const { return offsets_; }

  // ---- Steps of the plan
  /// The bytes that a send sends.
  std::span<const std::byte> payload(const algorithms::Step& step) noexcept;
  /// Where a receive puts its message.
  std::span<std::byte> destination(const algorithms::Step& step) const { return binding_.bytes(step.dst); }
  /// Bytes of the step's message, or of its result.
  std::size_t bytes_moved(const algorithms::Step& step) const;
  void copy(std::uint32_t step) noexcept { copy_bytes(step, 0, ~std::size_t{0}); }
  struct Piece {
    std::size_t bytes;
    bool is_last;
  };
  /// Does that piece of a copy step. Most steps have one.
  Piece copy_piece(std::uint32_t step, std::uint32_t piece) noexcept;
  void reduce(const algorithms::Step& step) noexcept;
  /// Combines the bytes from `offset` on of the message that a recv_reduce step receives.
  void reduce_piece(const algorithms::Step& step, std::size_t offset, std::span<const std::byte> piece) noexcept;
  /// The function that copies past the caches, if no other step reads the result there; else null, for memcpy.
  compute::Copy copy_of(std::uint32_t step) const noexcept;
  /// Makes averages of sums, when all steps are done.
  void finish(int root) noexcept;

 private:
  void bind_to_board(const Request& request, const Planned& planned);
  void bind_to_links(const Request& request);
  void bind_average(const Request& request);
  void stage() noexcept;
  std::size_t staged_bytes(const Request& request) const;
  /// Whether the blocks are elements of an average's input, which become contributions before they are sent.
  bool is_contributed(const algorithms::Blocks& blocks) const {
    return blocks.buffer == algorithms::Buffer::input && arithmetic_.averages();
  }
  Piece copy_bytes(std::uint32_t step, std::size_t begin, std::size_t most) noexcept;
  void begin_contribution(std::byte* to, std::span<const std::byte> elements) noexcept;

  BoardCall::Ground ground_;
  const Prepared* prepared_ = nullptr;
  Collective collective_{};
  Arithmetic arithmetic_;
  bool streams_ = false;               // the result is written past the caches
  std::optional<BoardCall> board_;     // none: the plan runs step by step
  const Request* bound_to_ = nullptr;  // the persistent request for which `binding_` and `memory_` are set up
  Binding binding_;
  PartOffsets offsets_;            // of a _v call
  ScratchMemory memory_;           // scratch, then staged input, or contributions and sums of an average
  std::span<std::byte> staged_;    // a copy of the input, or its tokens, read instead; empty: the input is read
  ConstBuffer input_;              // of which it is a copy
  std::size_t scratch_bytes_ = 0;  // of `memory_`
  std::vector<bool> contributed_;  // per block of an average's input: its contribution has been made
  std::byte* result_ = nullptr;    // where the average belongs
};

}  // namespace tutti::detail
