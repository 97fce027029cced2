#include "lib/security/tls_ends.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace tutti {

/// All sockets are files of one file system in the kernel, so the inode identifies them.
std::optional<TlsEnds::Name> TlsEnds::name_of(net::SocketView end) noexcept {
  struct ::stat status {};
  if (::fstat(end.get(), &status) != 0) return std::nullopt;
  return Name{status.st_ino};
}

TlsEnds::Entry::Entry(TlsEnds& ends, net::SocketView end, net::SocketView connection) : ends_(ends) {
  const auto name = name_of(end);
  if (!name) throw std::system_error{errno, std::system_category()};
  name_ = *name;
  const std::lock_guard lock{ends_.mutex_};
  ends_.all_[name_] = {connection.get(), 0};
}

TlsEnds::Entry::~Entry() {
  const std::lock_guard lock{ends_.mutex_};
  ends_.all_.erase(name_);
}

void TlsEnds::Entry::note(int error) noexcept {
  const std::lock_guard lock{ends_.mutex_};
  ends_.all_.find(name_)->second.error = error;
}

void TlsEnds::Entry::disconnect() noexcept {
  const std::lock_guard lock{ends_.mutex_};
  ends_.all_.find(name_)->second.connection.reset();
}

net::Socket TlsEnds::connection_behind(net::SocketView end) const noexcept {
  const std::lock_guard lock{mutex_};
  const Behind* const behind = find(end);
  if (!behind || !behind->connection) return {};
  return net::Socket{::fcntl(*behind->connection, F_DUPFD_CLOEXEC, 0)};
}

int TlsEnds::error_behind(net::SocketView end) const noexcept {
  const std::lock_guard lock{mutex_};
  const Behind* const behind = find(end);
  return behind ? behind->error : 0;
}

const TlsEnds::Behind* TlsEnds::find(net::SocketView end) const noexcept {
  const auto name = name_of(end);
  const auto found = name ? all_.find(*name) : all_.end();
  return found == all_.end() ? nullptr : &found->second;
}

}  // namespace tutti
