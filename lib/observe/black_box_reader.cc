#include "lib/observe/black_box_reader.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>

namespace tutti::black_box {
namespace {

constexpr int tries = 100;  // to read a record between two writes

/// Read-only view of a box.
class View {
 public:
  View(const Descriptor& descriptor, const std::string& name) {
    struct ::stat status {};
    if (::fstat(descriptor.get(), &status) != 0 || status.st_size != static_cast<off_t>(sizeof(Memory)))
      throw Error(ErrorCode::invalid_argument, name + " is no black box: it has " + std::to_string(status.st_size) +
                                                   " bytes instead of " + std::to_string(sizeof(Memory)));
    where_ = ::mmap(nullptr, sizeof(Memory), PROT_READ, MAP_SHARED, descriptor.get(), 0);
    if (where_ == MAP_FAILED)
      throw Error(ErrorCode::system, "cannot map the black box " + name + ": " + std::strerror(errno));
  }
  ~View() { ::munmap(where_, sizeof(Memory)); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  const Memory& memory() const { return *std::launder(static_cast<const Memory*>(where_)); }

 private:
  void* where_;
};

template <std::size_t n>
std::string text_of(const std::array<char, n>& field) {
  return {field.begin(), std::find(field.begin(), field.end(), '\0')};
}

/// The present contents of the record, or nothing if it is being written or empty.
std::optional<OperationRecord> read_once(const Record& record, const Text& from) {
  const std::uint64_t ticket = record.ticket.load(std::memory_order_acquire);
  if (ticket == 0 || ticket % 2 != 0) return std::nullopt;
  OperationRecord entry;
  entry.number = ticket / 2;
  entry.state = record.state.load(std::memory_order_acquire);  // first: the members that it announces are then valid
  std::array<std::uint64_t, call_words> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = record.call[i].load(std::memory_order_relaxed);
  entry.call = std::bit_cast<CallRecord>(words);
  entry.call.algorithm.back() = '\0';
  entry.bytes = record.bytes.load(std::memory_order_relaxed);
  entry.parts_done = record.parts_done.load(std::memory_order_relaxed);
  if (entry.state != State::started) entry.ended = record.ended.load(std::memory_order_relaxed);
  if (entry.state == State::failed) {
    entry.culprit = record.culprit.load(std::memory_order_relaxed);
    entry.code = record.code.load(std::memory_order_relaxed);
    const auto size = std::min<std::uint64_t>(record.text_bytes.load(std::memory_order_relaxed), text_words * 8);
    std::array<std::uint64_t, text_words> text;
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = from[i].load(std::memory_order_relaxed);
    entry.failure.resize(static_cast<std::size_t>(size));
    std::memcpy(entry.failure.data(), text.data(), entry.failure.size());
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (record.ticket.load(std::memory_order_relaxed) != ticket) return std::nullopt;
  return entry;
}

/// The group in that place, or nothing if there is none, or another one is being written.
std::optional<Member> read_group(const GroupSlot& slot) {
  const std::uint64_t number = slot.number.load(std::memory_order_acquire);
  const Member member{slot.id.load(std::memory_order_relaxed), slot.size.load(std::memory_order_relaxed),
                      slot.rank.load(std::memory_order_relaxed), number};
  std::atomic_thread_fence(std::memory_order_acquire);
  if (number == 0 || slot.number.load(std::memory_order_relaxed) != number) return std::nullopt;
  return member;
}

/// Also if nobody has asked for its exit code: its state is then Z.
bool has_ended(int pid) {
  if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
  std::array<char, 512> text{};
  const Descriptor file(::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::read(file.get(), text.data(), text.size() - 1) <= 0) return false;
  return std::string_view{text.data()}.find(") Z ") != std::string_view::npos;
}

}  // namespace

bool has_gone(const Snapshot& box) {
  const std::string here = scope_here();
  if (box.scope.empty() || here.empty()) return false;
  const auto kernel_of = [](const std::string& scope) { return scope.substr(0, scope.find('/')); };
  if (kernel_of(box.scope) != kernel_of(here)) return true;
  return box.scope == here && has_ended(box.pid);
}

std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

Snapshot read(const Descriptor& descriptor, const std::string& name) {
  const View view(descriptor, name);
  const Memory& memory = view.memory();
  Snapshot snapshot;
  const std::uint64_t found = memory.magic.load(std::memory_order_acquire);
  if (found == 0) return snapshot;
  if (found != magic) throw Error(ErrorCode::invalid_argument, name + " is no black box");
  if (memory.layout.load() != layout_version)
    throw Error(ErrorCode::invalid_argument, name + " is a black box of another version of tutti (" +
                                                 printable(text_of(memory.version)) +
                                                 "); read it with that version's program");
  snapshot.used = true;
  snapshot.rank = memory.rank.load();
  snapshot.size = memory.size.load();
  snapshot.pid = memory.pid.load();
  snapshot.host = text_of(memory.host);
  snapshot.job = text_of(memory.job);
  snapshot.version = text_of(memory.version);
  snapshot.scope = text_of(memory.scope);
  snapshot.world = memory.world.load();
  snapshot.earlier = memory.earlier.load();

  for (const GroupSlot& slot : memory.group)
    if (const std::optional<Member> member = read_group(slot)) snapshot.groups.push_back(*member);
  std::sort(snapshot.groups.begin(), snapshot.groups.end(),
            [](const Member& one, const Member& other) { return one.number < other.number; });
  for (std::size_t place = 0; place < record_count; ++place) {
    const Record& record = memory.records[place];
    for (int i = 0; i < tries; ++i) {
      if (auto entry = read_once(record, memory.texts[place])) {
        snapshot.entries.push_back(std::move(*entry));
        break;
      }
      if (record.ticket.load() == 0) break;
    }
  }
  std::sort(snapshot.entries.begin(), snapshot.entries.end(),
            [](const OperationRecord& one, const OperationRecord& other) { return one.number < other.number; });
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  snapshot.taken = now.tv_sec * 1'000'000'000 + now.tv_nsec;
  return snapshot;
}

}  // namespace tutti::black_box
