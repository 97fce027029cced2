#include "transport/memory/areas.h"

#include <cassert>
#include <utility>

namespace tutti::transport {

AreaName Areas::Round::take_first() noexcept {
  assert(!empty());
  const AreaName area = places_[first_];
  first_ = (first_ + 1) % places_.size();
  --count_;
  return area;
}

AreaName Areas::Round::replace_last(AreaName area) noexcept {
  assert(!empty());
  first_ = (first_ + places_.size() - 1) % places_.size();
  places_[first_] = area;
  return places_[(first_ + count_) % places_.size()];
}

void Areas::add_own(std::shared_ptr<RingMemory> ring, std::size_t areas) noexcept {
  own_ = {std::move(ring), areas};
  note(areas);
  for (std::size_t i = 0; i < areas; ++i) round_of(own_area(i)).append(own_area(i));
}

void Areas::add_theirs(std::shared_ptr<RingMemory> ring, std::size_t areas) noexcept {
  theirs_ = {std::move(ring), areas};
  note(areas);
}

AreaName Areas::take(std::uint64_t length) noexcept {
  const bool is_long = length > long_bytes || own_.areas <= areas_of_long;
  return (is_long ? of_long_ : of_others_).take_first();
}

/// Each round keeps as many areas as it had, whatever the peer says.
void Areas::put_back(AreaName returned, AreaName filled) noexcept {
  const bool replaces = is_known(returned) && is_of_long(returned) == is_of_long(filled);
  round_of(filled).append(replaces ? returned : filled);
}

AreaName Areas::exchange(AreaName read) noexcept {
  if (!is_known(read) || (own_.ring && !peer_has_own_)) return read;
  Round& round = round_of(read);
  return round.empty() ? read : round.replace_last(read);
}

bool Areas::is_of_long(AreaName area) noexcept { return static_cast<std::size_t>(area) % 0x80 < areas_of_long; }

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
