#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

  /// What the ranks must have alike, beyond the call itself.
  std::uint32_t hash() const { return prepared.hash ^ location.hash(); }
};

/// Memory that grows and is kept, since the next call rarely needs more.
class ScratchMemory {
 public:
  /// `bytes` bytes that begin on a cache line. Growing loses the contents.
  std::byte* get(std::size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

/// A call bound to memory: where each step of the plan finds its bytes, and what it does with them. On a board a
/// BoardCall does that instead.
///
/// An average sends contributions in place of elements. They are made of a block when it is first sent.
class BoundCall {
 public:
  /// Of a checked request. Without a board `ground.capacity` is 0. What a persistent request was bound to is kept for
  /// its next start.
  void bind(const Request& request, const Planned& planned, const BoardCall::Ground& ground);
  /// Each start, before the first step.
  void begin();
  /// The call is over. Memory is kept.
  void release() noexcept;

  /// Null: the plan goes step by step, over links.
  const BoardCall* board() const { return board_ ? &*board_ : nullptr; }
  const Prepared& prepared() const { return *prepared_; }
  const algorithms::Plan& plan() const { return prepared_->plan; }
  /// Of a _v call: offsets of the parts of its input, and of its output in an all_to_all_v.
  const PartOffsets& offsets() const { return offsets_; }

  // ---- Steps of the plan
  /// What a send sends.
  std::span<const std::byte> payload(const algorithms::Step& step) noexcept;
  /// Where a receive puts what comes.
  std::span<std::byte> destination(const algorithms::Step& step) const { return binding_.bytes(step.dst); }
  /// Bytes of the message, or of the result.
  std::size_t bytes_moved(const algorithms::Step& step) const;
  void copy(std::uint32_t step) noexcept;
  void reduce(const algorithms::Step& step) noexcept;
  /// The bytes from `offset` on of what a recv_reduce step receives.
  void reduce_piece(const algorithms::Step& step, std::size_t offset, std::span<const std::byte> piece) noexcept;
  /// Copies past the caches if no other step reads the result there. Null: memcpy does.
  compute::Copy copy_of(std::uint32_t step) const noexcept;
  /// All steps are done: makes averages of sums.
  void finish(int root) noexcept;

 private:
  void bind_to_board(const Request& request, const Planned& planned);
  void bind_to_links(const Request& request);
  void bind_average(const Request& request);
  void stage(const Request& request);
  std::size_t staged_bytes(const Request& request) const;
  /// Of an average elements of the input, which become contributions first.
  bool is_contributed(const algorithms::Blocks& blocks) const {
    return blocks.buffer == algorithms::Buffer::input && arithmetic_.averages();
  }
  void begin_contribution(std::byte* to, std::span<const std::byte> elements) noexcept;

  BoardCall::Ground ground_;
  const Prepared* prepared_ = nullptr;
  Collective collective_{};
  Arithmetic arithmetic_;
  bool streams_ = false;               // the result is written past the caches
  std::optional<BoardCall> board_;     // none: step by step
  const Request* bound_to_ = nullptr;  // a persistent one, which `binding_` and `memory_` serve already
  Binding binding_;
  PartOffsets offsets_;            // of a _v call
  ScratchMemory memory_;           // scratch, then staged input, or contributions and sums of an average
  std::size_t scratch_bytes_ = 0;  // of it
  std::vector<bool> contributed_;  // per block of an average's input: it has been sent, and may be on its way still
  std::byte* result_ = nullptr;    // where an average ends
};

}  // namespace tutti::detail
