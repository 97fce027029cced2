#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tutti {

/// Owns one file descriptor. Closing it preserves errno, which may say why it is closed.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  /// Another one for the same file, not inherited by exec. Empty: errno tells why.
  Descriptor duplicate() const { return Descriptor{::fcntl(fd_, F_DUPFD_CLOEXEC, 0)}; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset() {
    if (fd_ < 0) return;
    const int kept = errno;
    ::close(std::exchange(fd_, -1));
    errno = kept;
  }

 private:
  int fd_ = -1;
};

}  // namespace tutti
