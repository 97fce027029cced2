#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "lib/gpu/pinned_memory.h"
#include "tutti/request.h"

namespace tutti::detail {

/// A checked call on device memory, as a call on pinned memory of the host: its input is copied there before, and its
/// output from there afterwards, both by the stream of the call. Parts with displacements lie one after the other in
/// pinned memory, so that nothing is written between them.
class Staging {
 public:
  /// `rank`: of this one. Needs a current context.
  Staging(const Request& request, int rank);
  /// The same of a message.
  explicit Staging(const ConstBuffer& sent);
  explicit Staging(const Buffer& received);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// The call on pinned memory. Refers to this object.
  const Request& request() const { return request_; }
  /// Both enqueue copies; of a message that is shorter than its buffer the first `bytes` bytes.
  void copy_input(cuda::Commands& commands) const;
  void copy_output(cuda::Commands& commands) const;
  void copy_output(cuda::Commands& commands, std::size_t bytes) const;
  /// A stream may wait for it between the two.
  std::atomic<std::uint64_t>& word() const { return memory_.word(); }

 private:
  struct Piece {
    std::size_t on_device = 0;  // in bytes, from the beginning of the caller's buffer
    std::size_t in_memory = 0;  // from the beginning of the copy
    std::size_t bytes = 0;
  };
  struct Side {
    cuda::Address on_device = 0;
    std::size_t in_memory = 0;  // where the copy begins
    std::size_t bytes = 0;      // of the copy
    std::vector<Piece> pieces;  // empty: the call does not read or write it here
  };

  template <class Caller>
  void lay_out(Side& side, const Caller& caller, bool has_parts, std::span<const std::size_t> counts,
               std::span<const std::size_t> displacements) const;

  Request request_;
  std::vector<std::size_t> counts_;
  std::vector<std::size_t> recv_counts_;
  Side input_;
  Side output_;
  PinnedMemory memory_;
};

}  // namespace tutti::detail
