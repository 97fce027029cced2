#include "lib/observe/trace/record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/environment.h"
#include "lib/base/system_calls.h"
#include "tutti/error.h"

namespace tutti::trace {
namespace {

constexpr int size_is_final = F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

Mapping::Mapping(const Descriptor& descriptor, std::size_t bytes) noexcept {
  void* const where = system_calls::mmap(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get());
  if (where == MAP_FAILED) return;
  memory_ = std::launder(static_cast<Memory*>(where));
  bytes_ = bytes;
}

Mapping::Mapping(Mapping&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (memory_) ::munmap(memory_, bytes_);
}

Record* Mapping::records() const {
  return reinterpret_cast<Record*>(reinterpret_cast<std::byte*>(memory_) + records_begin);
}

std::size_t wanted_records() {
  return std::bit_ceil(environment::number("TUTTI_TRACE_RECORDS").value_or(default_records));
}

Descriptor make_memory(std::size_t records) {
  constexpr unsigned never_executable = 0x8;  // MFD_NOEXEC_SEAL of Linux 6.3, which systems may insist on
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Descriptor made(system_calls::memfd_create(memory_name, flags | never_executable));
  if (!made && errno == EINVAL) made = Descriptor(system_calls::memfd_create(memory_name, flags));
  int error = made ? 0 : errno;
  if (error == 0) {
    do error = system_calls::fallocate(made.get(), 0, static_cast<off_t>(memory_bytes(records)));
    while (error == EINTR);
  }
  if (error == 0 && ::fcntl(made.get(), F_ADD_SEALS, size_is_final) != 0) error = errno;
  if (error != 0)
    throw Error{ErrorCode::system, "no memory for " + std::to_string(records) + " records of a trace (" +
                                       std::to_string(memory_bytes(records) >> 10) + " KiB): " + std::strerror(error) +
                                       "; TUTTI_TRACE_RECORDS asks for fewer"};
  return made;
}

std::size_t size_of_memory(int descriptor) noexcept {
  std::array<char, 64> name{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  if (::readlink(link.c_str(), name.data(), name.size() - 1) < 0) return 0;
  if (!std::string_view{name.data()}.starts_with(std::string{"/memfd:"} + memory_name)) return 0;
  struct ::stat status {};
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (::fstat(descriptor, &status) != 0 || seals < 0 || (seals & size_is_final) != size_is_final) return 0;
  const auto bytes = static_cast<std::size_t>(status.st_size);
  return bytes >= memory_bytes(16) && std::has_single_bit((bytes - records_begin) / sizeof(Record)) ? bytes : 0;
}

}  // namespace tutti::trace
