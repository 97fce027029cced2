#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

#include "tests/gpu/contract.h"

namespace tutti::testing {
namespace {

constexpr int socket_number = 198;

void give_patience(int socket) {
  const timeval patience{20, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

}  // namespace

Child::Child(const char* test_case) {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  socket_ = Descriptor{ends[0]};
  const Descriptor theirs{ends[1]};
  give_patience(socket_.get());
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), socket_number);
  const std::string filter = std::string{"-tc="} + test_case;
  const char* const arguments[] = {"gpu_test", filter.c_str(), "--no-skip", "--minimal", nullptr};
  REQUIRE(::posix_spawn(&process_, "/proc/self/exe", &actions, nullptr, const_cast<char* const*>(arguments), environ) ==
          0);
  ::posix_spawn_file_actions_destroy(&actions);
}

Child::~Child() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

int Child::end() {
  int status = 0;
  bool ended = false;  // waitpid() says so once
  REQUIRE(soon([&] { return ended = ended || ::waitpid(process_, &status, WNOHANG) == process_; }));
  process_ = -1;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int parent_socket() {
  give_patience(socket_number);
  return socket_number;
}

void send_bytes(int socket, const void* bytes, std::size_t size, int descriptor) {
  iovec data{const_cast<void*>(bytes), size};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(size))
    throw std::runtime_error("the other process is gone");
}

int receive_bytes(int socket, void* bytes, std::size_t size) {
  iovec data{bytes, size};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) != static_cast<ssize_t>(size))
    throw std::runtime_error("the other process said nothing");
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  int descriptor = -1;
  if (header != nullptr) std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

}  // namespace tutti::testing
