#include "lib/base/fork_mark.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <new>
#include <utility>

namespace tutti {
namespace {

using Page = std::atomic<std::uint64_t>;

constinit Page spare{0};

/// A page that holds a mark, which is 0 in a child that has not looked yet. If the kernel cannot wipe it (before 4.14),
/// fork() calls back; a child made by a direct system call is then not recognised.
Page* make_page() noexcept {
  constexpr std::size_t size = 4096;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED && ::madvise(memory, size, MADV_WIPEONFORK) == 0) return new (memory) Page{0};
  if (memory != MAP_FAILED) ::munmap(memory, size);
  ::pthread_atfork(nullptr, nullptr, [] { spare.store(0, std::memory_order_relaxed); });
  return &spare;
}

/// The mark on the page, set first if necessary: the time, since pids may be reused.
std::uint64_t mark_on(Page& where) noexcept {
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) | 1;
  std::uint64_t found = 0;
  return where.compare_exchange_strong(found, now) ? now : found;
}

Page& shared_page() noexcept {
  static Page* const made = make_page();
  return *made;
}

/// Keeps objects reachable, so that leak detectors do not report them.
struct Kept {
  std::shared_ptr<const void> object;
  const Kept* next;
};
std::atomic<const Kept*> all_kept{nullptr};

}  // namespace

ForkMark::ForkMark() noexcept : page_(&shared_page()), mark_(mark_on(shared_page())), process_(::getpid()) {}

void keep_for_ever(std::shared_ptr<const void> object) noexcept {
  Kept* const entry = new (std::nothrow) Kept{std::move(object), all_kept.load()};
  if (entry == nullptr) std::abort();  // better than destroying it
  while (!all_kept.compare_exchange_weak(entry->next, entry)) continue;
}

}  // namespace tutti
