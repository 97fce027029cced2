#include "lib/observe/trace/recorder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lib/base/environment.h"
#include "tutti/error.h"
#include "tutti/version.h"

namespace tutti::trace {
namespace {

/// One process may have several worlds; only one of them can be in the launcher's memory.
std::atomic<bool> inherited_is_taken{false};

template <std::size_t n>
void copy(std::array<char, n>& to, std::string_view text) {
  to.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), n - 1), to.begin());
}

/// Absolute, since the program may change its folder before the file is written.
std::string from_here(const std::string& path) {
  std::error_code no_folder;
  const std::filesystem::path absolute = std::filesystem::absolute(path, no_folder);
  return no_folder ? path : absolute.string();
}

}  // namespace

std::unique_ptr<Recorder> Recorder::take_inherited(const Owner& owner, const std::string& path,
                                                   const BoardReads& board_reads) {
  const int number = environment::descriptor("TUTTI_TRACE_FD");
  const std::size_t bytes = number > 2 ? size_of_memory(number) : 0;
  if (bytes == 0 || inherited_is_taken.exchange(true)) return nullptr;
  ::fcntl(number, F_SETFD, FD_CLOEXEC);  // not for what this process starts
  Descriptor descriptor(::fcntl(number, F_DUPFD_CLOEXEC, 3));
  Mapping mapping{descriptor, bytes};
  if (!mapping || mapping.memory().magic.load() != 0) return nullptr;  // used by an earlier process of this rank
  return std::unique_ptr<Recorder>(
      new Recorder(std::move(descriptor), std::move(mapping), Home::inherited, path, owner, board_reads));
}

std::unique_ptr<Recorder> Recorder::open(const Owner& owner, BoardReads board_reads, std::string& trouble) {
  const auto setting = variable("TUTTI_TRACE_FILE");
  if (!setting) return nullptr;
  const std::string path = from_here(*setting);
  if (auto inherited = take_inherited(owner, path, board_reads)) return inherited;
  const std::size_t records = wanted_records();
  if (!variable("TUTTI_TRACE_FD")) make_file_once(path);
  try {
    Descriptor made = make_memory(records);
    if (Mapping mapping{made, memory_bytes(records)})
      return std::unique_ptr<Recorder>(
          new Recorder(std::move(made), std::move(mapping), Home::own, path, owner, std::move(board_reads)));
    trouble = std::string{"cannot map the memory of the trace: "} + std::strerror(errno);
  } catch (const Error& error) {
    trouble = error.what();
  }
  return nullptr;
}

Recorder::Recorder(Descriptor descriptor, Mapping mapping, Home home, std::string path, const Owner& owner,
                   BoardReads board_reads)
    : descriptor_(std::move(descriptor)),
      mapping_(std::move(mapping)),
      home_(home),
      path_(std::move(path)),
      board_reads_(std::move(board_reads)),
      records_(mapping_.records()) {
  Memory& memory = mapping_.memory();
  memory.capacity = (mapping_.bytes() - records_begin) / sizeof(Record);
  mask_ = memory.capacity - 1;
  std::memset(static_cast<void*>(records_), 0,
              memory.capacity * sizeof(Record));  // avoids page faults later
  memory.layout = layout_version;
  memory.counts = counts ? 1 : 0;
  memory.pid = ::getpid();
  memory.rank = owner.rank;
  memory.size = owner.size;
  memory.reference = owner.rank;
  copy(memory.host, owner.host);
  copy(memory.version, TUTTI_VERSION);
  memory.opened = moment();
  memory.magic.store(magic, std::memory_order_release);
}

Recorder::~Recorder() {
  if (mapping_.memory().pid != ::getpid()) return;  // a child of fork()
  mapping_.memory().closed = moment();
  flush();
}

std::uint64_t Recorder::number() const noexcept {
  constexpr int bits_of_pid = 22;  // at most
  const Memory& memory = mapping_.memory();
  const auto opened = static_cast<std::uint64_t>(memory.opened.nanoseconds);
  return (opened << bits_of_pid) + static_cast<std::uint64_t>(memory.pid);
}

std::uint8_t Recorder::name(std::string_view algorithm) noexcept {
  Memory& memory = mapping_.memory();
  algorithm = algorithm.substr(0, memory.name[0].size() - 1);
  const std::uint32_t known = memory.names.load(std::memory_order_relaxed);
  const auto is = [&](std::uint32_t index) { return algorithm == memory.name[index].data(); };
  if (last_name_ < known && is(last_name_)) return static_cast<std::uint8_t>(last_name_);
  for (last_name_ = 0; last_name_ < known; ++last_name_)
    if (is(last_name_)) return static_cast<std::uint8_t>(last_name_);
  if (known == Memory::most_names) return no_name;
  copy(memory.name[known], algorithm);
  memory.names.store(known + 1, std::memory_order_release);
  return static_cast<std::uint8_t>(known);
}

std::uint16_t Recorder::add_group(std::uint64_t id, int rank, std::span<const int> members) noexcept {
  Memory& memory = mapping_.memory();
  const std::uint32_t index = memory.groups.load(std::memory_order_relaxed);
  if (index == Memory::most_groups) return no_group;
  Group& group = memory.group[index];
  group = {.id = id ^ world_,
           .size = static_cast<std::int32_t>(members.size()),
           .rank = rank,
           .members = memory.members_used};
  if (members.size() <= Memory::most_members - memory.members_used) {
    std::copy(members.begin(), members.end(), memory.members.begin() + memory.members_used);
    memory.members_used += static_cast<std::uint32_t>(members.size());
    group.has_members = 1;
  }
  memory.groups.store(index + 1, std::memory_order_release);
  return static_cast<std::uint16_t>(index);
}

void Recorder::set_clock(int reference, std::int64_t offset, std::int64_t uncertainty) noexcept {
  Memory& memory = mapping_.memory();
  memory.reference = reference;
  memory.offset = offset;
  memory.uncertainty = uncertainty;
}

void Recorder::flush(const Patience& patience) noexcept {
  if (home_ == Home::inherited) return;
  try {
    append(path_, mapping_, board_reads_, patience);
  } catch (const std::exception& error) {
    std::fputs(fmt::format("tutti: rank {}: no trace: {}\n", mapping_.memory().rank, error.what()).c_str(), stderr);
  }
}

}  // namespace tutti::trace
