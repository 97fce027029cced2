#include "rendezvous/socket_owner.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "lib/base/net/socket.h"

namespace tutti::rendezvous {
namespace {

struct Query {
  nlmsghdr header{};
  inet_diag_req_v2 request{};
};

/// Port, and address in `words`, in network order.
void put(const net::Address& address, __be16& port, __be32 (&words)[4]) {
  if (address.family() == AF_INET6) {
    const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(address.get());
    port = v6->sin6_port;
    std::memcpy(words, &v6->sin6_addr, sizeof words);
  } else {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(address.get());
    port = v4->sin_port;
    std::memcpy(words, &v4->sin_addr, sizeof v4->sin_addr);
  }
}

/// Asked for a connection that is not there, the kernel names the socket that listens at its address.
bool is_connection(const std::optional<inet_diag_msg>& found) { return found && found->idiag_state != TCP_LISTEN; }

/// An orphaned socket has no inode, and the kernel reports root as its owner.
SocketOwner owner_of(const inet_diag_msg& found) { return {found.idiag_inode != 0, found.idiag_uid}; }

}  // namespace

bool SocketOwner::is_trusted() const { return open && (user == 0 || user == ::geteuid()); }

SocketOwners::SocketOwners() : netlink_(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {}

/// The socket that goes from `from` to `to`, else, or without `to`, the one that listens at `from`. Empty if the kernel
/// knows none, or does not answer.
std::optional<inet_diag_msg> SocketOwners::look_up(const net::Address& from, const net::Address* to) {
  Query query;
  query.header.nlmsg_len = sizeof query;
  query.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  query.header.nlmsg_flags = NLM_F_REQUEST;
  query.header.nlmsg_seq = ++questions_;
  query.request.sdiag_family = static_cast<__u8>(from.family());
  query.request.sdiag_protocol = IPPROTO_TCP;
  query.request.idiag_states = ~0u;
  query.request.id.idiag_cookie[0] = query.request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  put(from, query.request.id.idiag_sport, query.request.id.idiag_src);
  if (to != nullptr) put(*to, query.request.id.idiag_dport, query.request.id.idiag_dst);
  if (::send(netlink_.get(), &query, sizeof query, MSG_DONTWAIT) != static_cast<ssize_t>(sizeof query))
    return std::nullopt;

  // The kernel has answered before send() returns.
  alignas(nlmsghdr) std::array<char, 1024> answer;
  nlmsghdr header{};
  while (header.nlmsg_seq != query.header.nlmsg_seq) {
    const ssize_t got = ::recv(netlink_.get(), answer.data(), answer.size(), MSG_DONTWAIT);
    if (got < static_cast<ssize_t>(sizeof header + sizeof(inet_diag_msg))) return std::nullopt;
    std::memcpy(&header, answer.data(), sizeof header);
  }
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  inet_diag_msg message{};
  std::memcpy(&message, answer.data() + NLMSG_HDRLEN, sizeof message);
  return message;
}

std::optional<SocketOwner> SocketOwners::of_peer(int connected) {
  const net::Address here = net::local_address(net::SocketView{connected});
  if (here.length == 0) return std::nullopt;
  const net::Address there = net::remote_address(net::SocketView{connected});
  if (there.length == 0) return SocketOwner{};
  if (!netlink_) return std::nullopt;
  const std::optional<inet_diag_msg> found = look_up(there, &here);
  if (is_connection(found)) return owner_of(*found);
  // Not found means that it has gone, if this interface works here, which our own end shows, or the listener that made
  // it, and if it was on this host.
  if (!there.is_loopback() || !look_up(here, &there)) return std::nullopt;
  return SocketOwner{};
}

// Until a connection is accepted it has no owner, but it ends with its listener. So while it waits, the listener is the
// one at which it was made, and that was the only one there since. Once it is accepted the listener says nothing: who
// has accepted it may have given the port to somebody else.
std::optional<SocketOwner> SocketOwners::of_server(int connected) {
  const net::SocketView socket{connected};
  const net::Address here = net::local_address(socket);
  const net::Address there = net::remote_address(socket);
  if (here.length == 0 || there.length == 0) return SocketOwner{};
  if (!netlink_ || !there.is_loopback()) return std::nullopt;
  const std::optional<inet_diag_msg> listener = look_up(there, nullptr);
  const std::optional<inet_diag_msg> found = look_up(there, &here);
  if (is_connection(found)) {
    const bool waits =
        found->idiag_inode == 0 && (found->idiag_state == TCP_ESTABLISHED || found->idiag_state == TCP_SYN_RECV);
    return owner_of(waits && listener ? *listener : *found);
  }
  const std::optional<inet_diag_msg> own = look_up(here, &there);
  // If our end is connected all the same, the kernel translates its address: the other end is in another network
  // namespace, as that of a container whose port is forwarded.
  if (own && own->idiag_state == TCP_ESTABLISHED) return std::nullopt;
  // As above; and where our own end has gone, too, it is no longer connected.
  if (!own && net::remote_address(socket).length != 0) return std::nullopt;
  return SocketOwner{};
}

}  // namespace tutti::rendezvous
