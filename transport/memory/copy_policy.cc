#include "transport/memory/copy_policy.h"

#include <algorithm>

namespace tutti::transport {

void StoreChoice::copy_long(std::byte* to, const std::byte* from, std::size_t bytes, bool is_first_use) noexcept {
  const Way way = next();
  if (way == Way::streaming) return copy_policy_.streaming(to, from, bytes);
  const bool is_timed = way == Way::timed && !is_first_use;
  const auto begin = is_timed ? copy_policy_.clocks.elapsed() : std::chrono::nanoseconds{};
  copy_policy_.plain(to, from, bytes);
  if (is_timed) took(copy_policy_.clocks.elapsed() - begin, bytes);
}

StoreChoice::Way StoreChoice::next() noexcept {
  if (copy_policy_.always) return Way::streaming;
  if (--until_timed_ <= 0) return Way::timed;
  return streams_ ? Way::streaming : Way::plain;
}

void StoreChoice::took(std::chrono::nanoseconds time, std::size_t bytes) noexcept {
  has_timed_ = true;
  const bool slow = time * 1024 > slow_per_kib * static_cast<std::chrono::nanoseconds::rep>(bytes);
  tried_after_ = streams_ ? std::min(2 * tried_after_, tried_every) : tried_first;
  streams_ = slow && (streams_ || suspects_);
  suspects_ = slow && !streams_;
  until_timed_ = streams_ ? tried_after_ : suspects_ ? 1 : timed_every;
}

}  // namespace tutti::transport
