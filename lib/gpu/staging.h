#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "lib/gpu/device_parts.h"
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
  std::size_t input_bytes() const { return input_.parts.bytes(); }
  std::size_t output_bytes() const { return output_.parts.bytes(); }
  /// False for a message that is sent: its stream has nothing to wait for, and one that waits may keep up others.
  bool stream_waits() const { return stream_waits_; }
  /// A stream may wait for it between the two.
  std::atomic<std::uint64_t>& word() const { return memory_.word(); }

 private:
  struct Side {
    DeviceParts parts;
    std::size_t in_memory = 0;  // where the copy begins
  };

  Request request_;
  std::vector<std::size_t> counts_;
  std::vector<std::size_t> recv_counts_;
  Side input_;
  Side output_;
  bool stream_waits_ = true;
  PinnedMemory memory_;
};

}  // namespace tutti::detail
