// One Asio io_context per rank; every watched descriptor keeps one wait for "readable" armed in it.
//
// A descriptor that fired is armed again at the start of the next poll() or sleep(), not in its handler. So each
// descriptor fires at most once per pass, and a peer that floods one of them cannot keep a pass from ending.

#include "transport/reactor.h"

#include <algorithm>
#include <array>
#include <asio/error_code.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/system_error_text.h"
#include "tutti/error.h"

namespace tutti::transport {
namespace {

/// Memory for one handler in flight. Asio would use the heap whenever a wait is armed outside of a run.
struct Slot {
  alignas(std::max_align_t) std::array<std::byte, 256> memory{};
};

template <class T>
struct SlotAllocator {
  using value_type = T;

  explicit SlotAllocator(Slot& where) : slot(&where) {}
  template <class U>
  SlotAllocator(const SlotAllocator<U>& other) : slot(other.slot) {}  // NOLINT: allocators convert

  T* allocate(std::size_t count) {
    if (count * sizeof(T) <= sizeof slot->memory) return reinterpret_cast<T*>(slot->memory.data());
    return std::allocator<T>{}.allocate(count);
  }
  void deallocate(T* pointer, std::size_t count) {
    if (count * sizeof(T) > sizeof slot->memory) std::allocator<T>{}.deallocate(pointer, count);
  }
  template <class U>
  bool operator==(const SlotAllocator<U>& other) const {
    return slot == other.slot;
  }

  Slot* slot;
};

/// One watched descriptor. Handlers in flight share it, because a wait that has completed still runs its handler after
/// unwatch(); `alive` tells the handler to do nothing.
struct Watch {
  Watch(asio::io_context& context, int descriptor) : waiter(context, descriptor) {}

  asio::posix::stream_descriptor waiter;
  std::function<void()> readable;
  std::function<void()> writable;
  Slot readable_slot;
  Slot writable_slot;
  bool alive = true;
  bool resting = false;
  bool armed = false;  ///< or about to be
};

using WatchPointer = std::shared_ptr<Watch>;

struct Readable {
  using allocator_type = SlotAllocator<void*>;
  allocator_type get_allocator() const { return allocator_type{watch->readable_slot}; }
  void operator()(const asio::error_code& failure) const {
    if (!watch->alive || failure) return;
    fired->push_back(watch);
    watch->readable();
  }

  WatchPointer watch;
  std::vector<WatchPointer>* fired;
};

struct Writable {
  using allocator_type = SlotAllocator<void*>;
  allocator_type get_allocator() const { return allocator_type{watch->writable_slot}; }
  void operator()(const asio::error_code& failure) const {
    if (watch->alive && !failure) std::exchange(watch->writable, nullptr)();
  }

  WatchPointer watch;
};

/// Ends a blocking run.
struct Wakeup {
  using allocator_type = SlotAllocator<void*>;
  allocator_type get_allocator() const { return allocator_type{*slot}; }
  void operator()() const { posted->store(false); }

  Slot* slot;
  std::atomic<bool>* posted;
};

}  // namespace

struct Reactor::Impl {
  void arm(const WatchPointer& watch) {
    watch->armed = true;
    watch->waiter.async_wait(asio::posix::descriptor_base::wait_read, Readable{watch, &fired});
  }

  void arm_fired() {
    for (const WatchPointer& watch : fired) {
      watch->armed = false;
      if (watch->alive && !watch->resting) arm(watch);
    }
    fired.clear();
  }

  Slot wakeup_slot;
  std::atomic<bool> wakeup_posted{false};
  std::atomic<bool> interrupted{false};
  std::unordered_map<int, WatchPointer> watches;
  std::vector<WatchPointer> fired;
  Clock::time_point wake_by = Clock::time_point::max();

  // The last member, so it is destroyed first: handlers that never ran refer to the members above. The hint says that
  // one thread at a time runs it; post() from other threads is still allowed.
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
};

Reactor::Reactor() try : impl_(std::make_unique<Impl>()) {
  // Otherwise Asio would get its descriptors at the first watch(), which cannot report a failure.
  asio::posix::stream_descriptor{impl_->context};
} catch (const std::system_error& error) {
  throw Error(ErrorCode::system, "cannot watch for events: " + refusal(error.code().value()));
}

Reactor::~Reactor() {
  while (!impl_->watches.empty()) unwatch(impl_->watches.begin()->first);
  impl_->fired.clear();
}

void Reactor::watch(int descriptor, std::function<void()> readable) {
  auto watch = std::make_shared<Watch>(impl_->context, descriptor);
  watch->readable = std::move(readable);
  impl_->arm(watch);
  impl_->watches.insert_or_assign(descriptor, std::move(watch));
}

void Reactor::wait_writable(int descriptor, std::function<void()> writable) {
  WatchPointer& watch = impl_->watches[descriptor];
  if (!watch) watch = std::make_shared<Watch>(impl_->context, descriptor);
  const bool armed = watch->writable != nullptr;
  watch->writable = std::move(writable);
  if (armed) return;
  watch->waiter.async_wait(asio::posix::descriptor_base::wait_write, Writable{watch});
}

void Reactor::unwatch(int descriptor) {
  const auto found = impl_->watches.find(descriptor);
  if (found == impl_->watches.end()) return;
  found->second->alive = false;
  found->second->waiter.release();  // forgets the descriptor without closing it
  impl_->watches.erase(found);
}

void Reactor::rest(int descriptor) { impl_->watches.at(descriptor)->resting = true; }

void Reactor::wake(int descriptor) {
  const WatchPointer& watch = impl_->watches.at(descriptor);
  watch->resting = false;
  if (!watch->armed) impl_->arm(watch);
}

bool Reactor::poll() {
  impl_->arm_fired();
  return impl_->context.poll() > 0;
}

bool Reactor::sleep(Clock::time_point deadline) {
  deadline = std::min(deadline, std::exchange(impl_->wake_by, Clock::time_point::max()));
  impl_->arm_fired();
  std::size_t handlers = 0;
  if (!impl_->interrupted.load()) handlers = impl_->context.run_one_until(deadline);
  handlers += impl_->context.poll();
  // Exchange instead of store: sees what the interrupting thread wrote before.
  return impl_->interrupted.exchange(false) || handlers > 0;
}

void Reactor::wake_by(Clock::time_point time) { impl_->wake_by = std::min(impl_->wake_by, time); }

void Reactor::interrupt() {
  impl_->interrupted.store(true);
  if (impl_->wakeup_posted.exchange(true)) return;
  asio::post(impl_->context, Wakeup{&impl_->wakeup_slot, &impl_->wakeup_posted});
}

}  // namespace tutti::transport
