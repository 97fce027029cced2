#include "transport/shm/ring_endpoint.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "lib/base/net/socket.h"
#include "lib/base/system_calls.h"
#include "lib/base/system_error_text.h"
#include "transport/shm/unix_socket.h"

namespace tutti::transport {
namespace {

/// 0, or why memory cannot be read by any thread of the process.
int read_by_threads(pid_t process, const iovec& to, const iovec& from, ssize_t& read) noexcept try {
  for (const auto& thread : std::filesystem::directory_iterator{fmt::format("/proc/{}/task", process)}) {
    read = system_calls::process_vm_readv(std::atoi(thread.path().filename().c_str()), to, from);
    if (read >= 0) return 0;
    if (errno != ESRCH) return errno;
  }
  return ESRCH;
} catch (const std::filesystem::filesystem_error& error) {
  return error.code() == std::errc::no_such_file_or_directory ? ESRCH : error.code().value();
} catch (const std::bad_alloc&) {
  return ENOMEM;
}

/// The kernel finds memory by a thread that uses it. By a process it means the main thread, which ends before the
/// others if main() calls pthread_exit(). Such programs are rare, so each piece of a message asks anew.
ssize_t read_memory(pid_t process, const iovec& to, const iovec& from) noexcept {
  ssize_t read = system_calls::process_vm_readv(process, to, from);
  if (read >= 0 || errno != ESRCH) return read;
  if (const int error = read_by_threads(process, to, from, read); error != 0) errno = error;
  return read;
}

}  // namespace

Attempt hand_over(const Introduction& introduction, Descriptor& socket) {
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    throw Error(code, fmt::format("cannot connect to rank {} through its Unix socket: {}", introduction.peer, why),
                introduction.peer);
  };
  Attempt attempt = connect_unix(introduction.socket, socket);
  if (attempt == Attempt::done) {
    const long user = net::user_of_peer(socket);
    if (user != static_cast<long>(::geteuid()))
      refuse(ErrorCode::peer_lost, fmt::format("its socket belongs to user {}, not to user {}", user, ::geteuid()));
    attempt = send_with_descriptor(socket, introduction.hello, introduction.memory);
  }
  if (attempt == Attempt::failed) {
    const bool ours = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    refuse(ours ? ErrorCode::system : ErrorCode::peer_lost, refusal(errno));
  }
  if (attempt == Attempt::later) socket = Descriptor();
  return attempt;
}

ShmEndpoint::ShmEndpoint(MappedRing ring, Descriptor socket, EndpointContext& home)
    : ring_(std::move(ring)), socket_(std::move(socket)), home_(home) {
  watch();
}

ShmEndpoint::ShmEndpoint(MappedRing ring, Introduction introduction, EndpointContext& home)
    : ring_(std::move(ring)), home_(home), introduction_(std::move(introduction)) {}

ShmEndpoint::~ShmEndpoint() {
  std::erase(home_.not_introduced, this);
  if (socket_ && !left_) home_.reactor.unwatch(socket_.get());
}

bool ShmEndpoint::introduce() {
  try {
    if (hand_over(*introduction_, socket_) == Attempt::later) return false;
    introduction_.reset();
    watch();
  } catch (const Error& error) {
    trouble_.emplace(error);
    introduction_.reset();
    socket_ = Descriptor();
    home_.host.attention();
  }
  return true;
}

void ShmEndpoint::watch() {
  home_.reactor.watch(socket_.get(), [this] { read_from(); });
}

void ShmEndpoint::read_from() {
  if (take_bells(socket_)) return;
  home_.reactor.unwatch(socket_.get());
  left_ = true;
  home_.host.attention();
}

void ShmEndpoint::cut() noexcept {
  if (left_ || !socket_) return;
  home_.reactor.unwatch(socket_.get());
  ::shutdown(socket_.get(), SHUT_RDWR);
  left_ = true;
}

bool ShmEndpoint::read_peer(std::span<std::byte> to, std::uint64_t address) noexcept {
  if (peer_process_ == 0) peer_process_ = net::process_of_peer(socket_);
  if (left_ || peer_process_ <= 0) {
    errno = ESRCH;
    return false;
  }
  const iovec local{to.data(), to.size()};
  const iovec remote{reinterpret_cast<void*>(address), to.size()};
  const ssize_t read = read_memory(peer_process_, local, remote);
  if (std::cmp_equal(read, to.size())) return true;
  const int error = read < 0 ? errno : EFAULT;
  errno = has_ended(socket_) ? ESRCH : error;
  return false;
}

/// Silent if the peer has gone, since its memory cannot be read then.
void ShmEndpoint::say_unreadable(int error) noexcept {
  if (!left_ && !has_ended(socket_)) home_.host.unreadable(error);
}

void ShmEndpoint::wake_peer() noexcept {
  if (socket_) send_bell(socket_);
}

}  // namespace tutti::transport
