// Replaces the global operator new by one that counts. The array forms call these. The nothrow forms must be replaced,
// too, since memory from a sanitizer's runtime cannot be passed to our operator delete.

#include "tests/support/allocations.h"

#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t allocation_count = 0;
thread_local std::size_t failing_allocation = 0;  // as allocation_count numbers them
thread_local void (*observer)(const void*) = nullptr;

void release(void* memory) noexcept {
  if (observer != nullptr && memory != nullptr) observer(memory);
  std::free(memory);
}

void* try_allocate(std::size_t size, std::size_t alignment) noexcept {
  if (++allocation_count == failing_allocation) return nullptr;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
}

void* allocate(std::size_t size, std::size_t alignment) {
  if (void* memory = try_allocate(size, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return try_allocate(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return try_allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace tutti::transport::testing {

std::size_t allocations() { return allocation_count; }
FailingAllocation::FailingAllocation(std::size_t number) { failing_allocation = allocation_count + number; }
FailingAllocation::~FailingAllocation() { failing_allocation = 0; }
void observe_releases(void (*with)(const void*)) { observer = with; }

}  // namespace tutti::transport::testing
