#include "transport/memory/copy_policy.h"

namespace tutti::transport {

void StoreChoice::copy_long(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  using Clock = std::chrono::steady_clock;
  const Way way = next();
  if (way == Way::streaming) return copy_policy_.streaming(to, from, bytes);
  const auto begin = way == Way::timed ? Clock::now() : Clock::time_point{};
  std::memcpy(to, from, bytes);
  if (way == Way::timed) took(Clock::now() - begin, bytes);
}

StoreChoice::Way StoreChoice::next() noexcept {
  if (copy_policy_.always) return Way::streaming;
  if (--until_timed_ <= 0) return Way::timed;
  return streams_ ? Way::streaming : Way::plain;
}

void StoreChoice::took(std::chrono::nanoseconds time, std::size_t bytes) noexcept {
  const bool slow = time * 1024 > slow_per_kib * static_cast<std::chrono::nanoseconds::rep>(bytes);
  streams_ = slow && (streams_ || suspects_);
  suspects_ = slow && !streams_;
  until_timed_ = streams_ ? tried_every : suspects_ ? 1 : timed_every;
}

}  // namespace tutti::transport
