// The minimum of HTTP that a browser needs for a few pages: GET and HEAD, an answer, the end of the connection.

#include "cli/learn/serve.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "cli/base/output.h"
#include "lib/base/descriptor.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

constexpr std::size_t most_connections = 16;  // browsers open some in advance; the oldest one is closed
constexpr std::size_t longest_request = 16384;

struct Visitor {
  Descriptor socket;
  std::string request;
};

[[noreturn]] void failed(const char* what) {
  throw Error(ErrorCode::system, fmt::format("learn: cannot {} on 127.0.0.1: {}", what, std::strerror(errno)));
}

Descriptor listen_here(int& port) {
  Descriptor listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (!listener || ::bind(listener.get(), any, length) != 0 || ::listen(listener.get(), 16) != 0) failed("listen");
  if (::getsockname(listener.get(), any, &length) != 0) failed("find the port");
  port = ntohs(address.sin_port);
  return listener;
}

std::string answer(const std::vector<Page>& pages, std::string_view request) {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const std::string_view method = line.substr(0, line.find(' '));
  if (method != "GET" && method != "HEAD")
    return "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  std::string_view path = line.substr(std::min(method.size() + 1, line.size()));
  path = path.substr(0, path.find_first_of(" ?"));
  const std::string_view name = path == "/" ? "index.html" : path.substr(std::min<std::size_t>(1, path.size()));
  const auto page = std::find_if(pages.begin(), pages.end(), [&](const Page& one) { return one.name == name; });
  const std::string_view content = page != pages.end() ? std::string_view{page->content} : "There is no such page.\n";
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/{}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      page != pages.end() ? "200 OK" : "404 Not Found", page != pages.end() ? "html" : "plain", content.size(),
      method == "GET" ? content : "");
}

/// Gives up after the socket's timeout if the client does not read.
void send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  ::shutdown(socket, SHUT_WR);
}

void accept_visitors(int listener, std::vector<Visitor>& visitors) {
  Descriptor socket{::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)};
  if (!socket) return;
  const timeval patience{.tv_sec = 2, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (visitors.size() == most_connections) visitors.erase(visitors.begin());
  visitors.push_back({std::move(socket), ""});
}

/// True if this connection has been served completely.
bool serve(const std::vector<Page>& pages, Visitor& visitor) {
  char bytes[4096];
  const ssize_t got = ::recv(visitor.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (got <= 0) return got == 0 || (errno != EAGAIN && errno != EINTR);
  visitor.request.append(bytes, static_cast<std::size_t>(got));
  if (visitor.request.find("\r\n\r\n") == std::string::npos) return visitor.request.size() > longest_request;
  send_all(visitor.socket.get(), answer(pages, visitor.request));
  return true;
}

}  // namespace

int serve_pages(const std::vector<Page>& pages) {
  int port = 0;
  const Descriptor listener = listen_here(port);
  fmt::print("{} pages, until Ctrl-C:\n  http://127.0.0.1:{}/\n", pages.size(), port);
  flush_output();
  std::vector<Visitor> visitors;
  for (;;) {
    std::vector<pollfd> waiting{{listener.get(), POLLIN, 0}};
    for (const Visitor& visitor : visitors) waiting.push_back({visitor.socket.get(), POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) failed("wait");
    for (std::size_t i = visitors.size(); i > 0; --i)
      if (waiting[i].revents != 0 && serve(pages, visitors[i - 1]))
        visitors.erase(visitors.begin() + static_cast<std::ptrdiff_t>(i) - 1);
    if (waiting[0].revents != 0) accept_visitors(listener.get(), visitors);
  }
}

}  // namespace tutti::cli
