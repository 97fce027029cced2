#include "lib/observe/trace/snapshot.h"

#include <unistd.h>

#include <algorithm>

#include "tutti/error.h"

namespace tutti::trace {
namespace {

template <std::size_t n>
std::string text_of(const std::array<char, n>& text) {
  return {text.begin(), std::find(text.begin(), text.end(), '\0')};
}

std::vector<Snapshot::Group> groups_of(const Memory& memory) {
  std::vector<Snapshot::Group> groups;
  const std::size_t count = std::min<std::size_t>(memory.groups.load(), Memory::most_groups);
  for (std::size_t i = 0; i < count; ++i) {
    const Group& group = memory.group[i];
    Snapshot::Group& made = groups.emplace_back(Snapshot::Group{group.id, group.rank, group.size, {}});
    const auto size = static_cast<std::size_t>(std::max(group.size, 0));
    if (!group.has_members || group.members > Memory::most_members || size > Memory::most_members - group.members)
      continue;
    made.members.assign(memory.members.begin() + group.members, memory.members.begin() + group.members + size);
  }
  return groups;
}

bool is_sound(const Record& record) { return static_cast<int>(record.kind) < kind_count && record.begin != 0; }

/// The last record of a killed rank may be half written: where the ring is full, in the place of the oldest.
void take_records(const Mapping& mapping, Snapshot& snapshot) {
  const Memory& memory = mapping.memory();
  const std::uint64_t capacity = (mapping.bytes() - records_begin) / sizeof(Record);
  const std::uint64_t written = memory.written.load(std::memory_order_acquire);
  const std::uint64_t flushed = std::min(memory.flushed.load(), written);
  const std::uint64_t kept = snapshot.closed || memory.pid == ::getpid() ? capacity : capacity - 1;
  const std::uint64_t first = std::max(flushed, written - std::min(written, kept));
  snapshot.records.reserve(written - first);
  for (std::uint64_t i = first; i < written; ++i)
    if (const Record& record = mapping.records()[i % capacity]; is_sound(record)) snapshot.records.push_back(record);
  snapshot.written = written;
  snapshot.lost = first - flushed;
}

}  // namespace

Snapshot take(const Mapping& mapping) {
  const Memory& memory = mapping.memory();
  if (memory.magic.load(std::memory_order_acquire) != magic || memory.layout != layout_version)
    throw Error{ErrorCode::invalid_argument, "no rank of this version of tutti has used the memory for its trace"};
  Snapshot snapshot;
  snapshot.rank = memory.rank;
  snapshot.size = memory.size;
  snapshot.pid = memory.pid;
  snapshot.host = text_of(memory.host);
  snapshot.counts = memory.counts != 0;
  snapshot.closed = memory.closed.ticks != 0;
  snapshot.reference = memory.reference;
  snapshot.offset = memory.offset;
  snapshot.uncertainty = memory.uncertainty;
  snapshot.opened = memory.opened;
  snapshot.closed_at = snapshot.closed ? memory.closed : moment();
  snapshot.groups = groups_of(memory);
  const std::size_t names = std::min<std::size_t>(memory.names.load(), Memory::most_names);
  for (std::size_t i = 0; i < names; ++i) snapshot.names.push_back(text_of(memory.name[i]));
  take_records(mapping, snapshot);
  return snapshot;
}

std::int64_t Snapshot::time(std::int64_t ticks) const {
  const double span = static_cast<double>(closed_at.ticks - opened.ticks);
  const double rate = span > 0 ? static_cast<double>(closed_at.nanoseconds - opened.nanoseconds) / span : 1;
  const double since = static_cast<double>(ticks - opened.ticks) * rate;
  return opened.nanoseconds + static_cast<std::int64_t>(since) + offset;
}

}  // namespace tutti::trace
