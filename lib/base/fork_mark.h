#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace tutti {

/// Tells the process in which it was made from the children that fork() makes of it: a child has a copy of all memory,
/// but none of the threads, and shares connections in which it has no say.
///
/// Costs a load and a comparison: the kernel itself wipes a page in every child (MADV_WIPEONFORK).
/// Threading: any.
class ForkMark {
 public:
  ForkMark() noexcept;
  /// False in a child of that process, however deep.
  bool is_here() const noexcept { return page_->load(std::memory_order_relaxed) == mark_; }
  /// The pid of that process.
  int process() const noexcept { return process_; }

 private:
  const std::atomic<std::uint64_t>* page_;
  std::uint64_t mark_;
  int process_;
};

/// What a child of fork() must not destroy: that would wait for threads which are not there, and speak to peers in the
/// parent's name.
void keep_for_ever(std::shared_ptr<const void> object) noexcept;

}  // namespace tutti
