#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace tutti {

/// Distinguishes the process in which it was made from its children by fork(): a child has a copy of all memory, but
/// none of the threads, and must not use the connections that it shares.
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

/// Keeps an object that must not be destroyed: a child of fork() would wait for threads that do not exist there, and
/// send messages in the parent's name.
void keep_for_ever(std::shared_ptr<const void> object) noexcept;

}  // namespace tutti
