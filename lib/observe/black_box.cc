// Writing: a record's ticket is odd while its call is written. A reader that sees the same even ticket before and after
// has read one call and not parts of two. Later changes are single words, which are never half written.

#include "lib/observe/black_box.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "lib/base/environment.h"
#include "lib/base/system_calls.h"
#include "lib/base/words.h"
#include "tutti/version.h"

namespace tutti::black_box {
namespace {

constexpr std::int64_t second = 1'000'000'000;
constexpr int size_is_final = F_SEAL_SHRINK | F_SEAL_GROW;

/// One process may have several communicators' worlds; only one of them can be in the launcher's memory.
std::atomic<bool> inherited_is_taken{false};

std::int64_t now_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return now.tv_sec * second + now.tv_nsec;
}

Memory* map(const Descriptor& descriptor) {
  void* where = system_calls::mmap(sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get());
  return where == MAP_FAILED ? nullptr : std::launder(static_cast<Memory*>(where));
}

/// Reserves the memory, so that a full disk or a low limit is an error here instead of a signal later.
int reserve(const Descriptor& descriptor) {
  int error = 0;
  do error = system_calls::fallocate(descriptor.get(), 0, sizeof(Memory));
  while (error == EINTR);
  return error;
}

template <std::size_t n>
void copy(std::array<char, n>& to, std::string_view text) {
  to.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), n - 1), to.begin());
}

[[noreturn]] void refuse_file(const std::string& path, const char* what, int error) {
  throw Error(ErrorCode::system, "TUTTI_BLACK_BOX=" + path + ": cannot " + what + " it: " + std::strerror(error) +
                                     ". Name a file in a folder that exists, may be written and has " +
                                     std::to_string(sizeof(Memory) / 1024) + " KiB left, or unset the variable");
}

/// "%r" in a path is the rank.
std::string path_for(std::string path, const Box::Owner& owner) {
  const std::size_t mark = path.find("%r");
  if (mark != std::string::npos) return path.replace(mark, 2, std::to_string(owner.rank));
  if (owner.size == 1) return path;
  throw environment::wrong("TUTTI_BLACK_BOX", path, "not a name for several ranks, which need a file each");
}

/// A new file, in place of one that was left here. A box that is still written, of another job or of another world of
/// this process, keeps the old file: cutting that off would kill its rank by SIGBUS.
Descriptor make_file(const std::string& path) {
  constexpr int tries = 100;  // others may do the same
  for (int i = 0; i < tries; ++i) {
    struct ::stat old {};
    if (::lstat(path.c_str(), &old) == 0 && S_ISREG(old.st_mode) && ::unlink(path.c_str()) != 0 && errno != ENOENT)
      refuse_file(path, "replace", errno);
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file) return file;
    if (errno != EEXIST) break;
  }
  refuse_file(path, "make", errno);
}

/// Whether the descriptor is a memfd that a launcher made for this purpose: others must not be written to.
bool is_box(int descriptor) {
  std::array<char, 64> name{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  if (::readlink(link.c_str(), name.data(), name.size() - 1) < 0) return false;
  if (!std::string_view{name.data()}.starts_with(std::string{"/memfd:"} + memory_name)) return false;
  struct ::stat status {};
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  return ::fstat(descriptor, &status) == 0 && status.st_size == static_cast<off_t>(sizeof(Memory)) && seals >= 0 &&
         (seals & size_is_final) == size_is_final;
}

/// A process that got this box from the same launcher before still lives.
bool is_used_by_another(const Memory& memory) {
  const std::int32_t pid = memory.pid.load();
  return pid != 0 && pid != ::getpid() && ::kill(pid, 0) == 0;
}

}  // namespace

Label label_of(std::string_view name) {
  Label label;
  copy(label, name);
  return label;
}

std::uint64_t new_form_name() noexcept {
  static std::atomic<std::uint64_t> names{0};
  return ++names;
}

void Flight::land(const Error* error) noexcept {
  if (!is_mine()) return;
  record_->ended.store(now_of(CLOCK_MONOTONIC), std::memory_order_relaxed);
  if (error) {
    record_->culprit.store(error->rank(), std::memory_order_relaxed);
    record_->code.store(static_cast<std::uint32_t>(error->code()), std::memory_order_relaxed);
    const std::string_view text = std::string_view{error->what()}.substr(0, text_words * 8);
    for (std::size_t begin = 0; begin < text.size(); begin += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + begin, std::min<std::size_t>(8, text.size() - begin));
      (*text_)[begin / 8].store(word, std::memory_order_relaxed);
    }
    record_->text_bytes.store(text.size(), std::memory_order_relaxed);
  }
  record_->state.store(error ? State::failed : State::done, std::memory_order_release);
  record_ = nullptr;
}

std::string scope_here() {
  std::array<char, 64> kernel{};
  std::array<char, 64> name_space{};
  const Descriptor file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (!file || ::read(file.get(), kernel.data(), kernel.size() - 1) <= 0 ||
      ::readlink("/proc/self/ns/pid", name_space.data(), name_space.size() - 1) <= 0)
    return "";
  const std::string_view id{kernel.data()};
  return std::string{id.substr(0, id.find('\n'))} + "/" + name_space.data();
}

Descriptor make_memory() {
  constexpr unsigned never_executable = 0x8;  // MFD_NOEXEC_SEAL of Linux 6.3, which systems may insist on
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Descriptor made(system_calls::memfd_create(memory_name, flags | never_executable));
  if (!made && errno == EINVAL) made = Descriptor(system_calls::memfd_create(memory_name, flags));
  int error = made ? reserve(made) : errno;
  if (error == 0 && ::fcntl(made.get(), F_ADD_SEALS, size_is_final) != 0) error = errno;
  if (error != 0) throw Error(ErrorCode::system, std::string{"no memory for the black box: "} + std::strerror(error));
  return made;
}

std::unique_ptr<Box> Box::take_inherited(const Owner& owner) {
  const int number = environment::descriptor("TUTTI_BLACK_BOX_FD");
  if (number < 3 || !is_box(number)) return nullptr;
  if (inherited_is_taken.exchange(true)) return nullptr;
  ::fcntl(number, F_SETFD, FD_CLOEXEC);  // not for what this process starts; kept for its next communicator
  Descriptor descriptor(::fcntl(number, F_DUPFD_CLOEXEC, 3));
  Memory* const memory = descriptor ? map(descriptor) : nullptr;
  if (memory && !is_used_by_another(*memory))
    return std::unique_ptr<Box>(new Box(std::move(descriptor), memory, Home::inherited, owner));
  if (memory) ::munmap(memory, sizeof(Memory));
  inherited_is_taken.store(false);
  return nullptr;
}

std::unique_ptr<Box> Box::open(const Owner& owner, std::string& trouble) {
  const std::string setting = variable("TUTTI_BLACK_BOX").value_or("");
  if (is_same_word(setting, "off")) return nullptr;
  if (!setting.empty()) {
    const std::string path = path_for(setting, owner);
    Descriptor file = make_file(path);
    if (const int error = reserve(file)) refuse_file(path, "fill", error);
    Memory* const memory = map(file);
    if (!memory) refuse_file(path, "map", errno);
    return std::unique_ptr<Box>(new Box(std::move(file), memory, Home::own, owner));
  }
  if (auto inherited = take_inherited(owner)) return inherited;
  try {
    Descriptor made = make_memory();
    if (Memory* const memory = map(made))
      return std::unique_ptr<Box>(new Box(std::move(made), memory, Home::own, owner));
    trouble = std::string{"cannot map the black box: "} + std::strerror(errno);
  } catch (const Error& error) {
    trouble = error.what();
  }
  return nullptr;
}

/// A box that was used before is continued: what was recorded there belongs to an earlier world.
Box::Box(Descriptor descriptor, Memory* memory, Home home, const Owner& owner)
    : descriptor_(std::move(descriptor)), memory_(memory), home_(home), operations_(memory->operations.load()) {
  memory->layout.store(layout_version);
  memory->pid.store(::getpid());
  memory->rank.store(owner.rank);
  memory->size.store(owner.size);
  copy(memory->host, owner.host);
  copy(memory->job, owner.job);
  copy(memory->version, TUTTI_VERSION);
  copy(memory->scope, scope_here());
  for (GroupSlot& slot : memory->group) slot.number.store(0);
  memory->groups.store(0);
  memory->earlier.store(operations_);
  memory->world.store(0);
  memory->magic.store(magic, std::memory_order_release);
}

Box::~Box() {
  ::munmap(memory_, sizeof(Memory));
  if (home_ == Home::inherited) inherited_is_taken.store(false);
}

/// A free place, or that of the oldest group that has ended, or of the oldest one. The world keeps its own.
std::size_t Box::place_for_group() const noexcept {
  const auto age = [this](std::size_t place) {
    return std::pair{!has_ended_[place], memory_->group[place].number.load(std::memory_order_relaxed)};
  };
  const std::uint64_t made = memory_->groups.load(std::memory_order_relaxed);
  if (made < group_count) return static_cast<std::size_t>(made);
  std::size_t best = 1;
  for (std::size_t place = 2; place < group_count; ++place)
    if (age(place) < age(best)) best = place;
  return best;
}

void Box::add_group(std::uint64_t id, int size, int rank) noexcept {
  const std::size_t place = place_for_group();
  const std::uint64_t number = memory_->groups.load(std::memory_order_relaxed) + 1;
  GroupSlot& slot = memory_->group[place];
  has_ended_[place] = false;
  slot.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  slot.id.store(id, std::memory_order_relaxed);
  slot.size.store(size, std::memory_order_relaxed);
  slot.rank.store(rank, std::memory_order_relaxed);
  slot.number.store(number, std::memory_order_release);
  memory_->groups.store(number, std::memory_order_release);
}

void Box::end_group(std::uint64_t id) noexcept {
  for (std::size_t place = 0; place < group_count; ++place)
    if (memory_->group[place].id.load(std::memory_order_relaxed) == id) has_ended_[place] = true;
}

/// The difference of CLOCK_REALTIME, which may be set at any time.
void Box::read_realtime(std::int64_t now) noexcept {
  realtime_ = now_of(CLOCK_REALTIME) - now_of(CLOCK_MONOTONIC);
  realtime_read_ = now;
}

std::int64_t coarse_now() noexcept { return now_of(CLOCK_MONOTONIC_COARSE); }

}  // namespace tutti::black_box
