#include "transport/memory/areas.h"

#include <cassert>
#include <utility>

namespace tutti::transport {

void Areas::add_own(std::shared_ptr<RingMemory> ring, std::size_t areas) noexcept {
  own_ = {std::move(ring), areas};
  note(areas);
  for (std::size_t i = 0; i < areas; ++i) free_[(first_ + count_++) % free_.size()] = own_area(i);
}

void Areas::add_theirs(std::shared_ptr<RingMemory> ring, std::size_t areas) noexcept {
  theirs_ = {std::move(ring), areas};
  note(areas);
}

AreaName Areas::take() noexcept {
  assert(count_ > 0);
  const AreaName area = free_[first_];
  first_ = (first_ + 1) % free_.size();
  --count_;
  return area;
}

void Areas::put_back(AreaName returned, AreaName filled) noexcept {
  free_[(first_ + count_++) % free_.size()] = is_known(returned) ? returned : filled;
}

AreaName Areas::exchange(AreaName read) noexcept {
  if (!is_known(read) || (own_.ring && !peer_has_own_)) return read;
  if (count_ == 0) return read;
  first_ = (first_ + free_.size() - 1) % free_.size();
  free_[first_] = read;
  return free_[(first_ + count_) % free_.size()];
}

/// Rings of ranks that obey the rules have as many areas. In others areas may be too small.
bool Areas::is_known(AreaName area) const noexcept {
  const auto name = static_cast<std::size_t>(area);
  if (own_.ring && theirs_.ring && own_.areas != theirs_.areas) return false;
  return name % 0x80 < (name < 0x80 ? own_ : theirs_).areas;
}

bool Areas::is_first_use(AreaName area, std::size_t bytes) noexcept {
  std::uint32_t& used = used_[static_cast<std::size_t>(area)];
  if (bytes <= used) return false;
  used = static_cast<std::uint32_t>(bytes);
  return true;
}

std::byte* Areas::at(AreaName area) const noexcept {
  const auto name = static_cast<std::size_t>(area);
  const Ring& where = name < 0x80 && own_.ring ? own_ : theirs_.ring ? theirs_ : own_;
  return where.ring->area(name % 0x80 % where.areas, where.areas);
}

}  // namespace tutti::transport
