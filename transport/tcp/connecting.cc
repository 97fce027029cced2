#include "transport/tcp/connecting.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace tutti::transport::tcp {

Connecting::Connecting(TcpContext& shared, std::span<const net::Address> addresses, Hello hello,
                       std::function<void()> wake)
    : context_(shared), wake_(std::move(wake)) {
  const std::size_t places = context_.places_shared_with(addresses);
  all_.reserve(hello.stripe.count);  // handlers of the reactor refer to its elements
  for (hello.stripe.number = 0; hello.stripe.number < hello.stripe.count; ++hello.stripe.number) {
    const std::size_t place = hello.stripe.number % places;
    all_.push_back({.connector = Connector{addresses[place], context_.key, hello, context_.tls_proxies,
                                           context_.path_to(hello.to, place)}});
    net::keep_alive(all_.back().connector.socket(), context_.lost_after);
  }
}

int Connecting::advance() noexcept {
  for (One& one : all_) {
    const int error = one.waits() ? EAGAIN : advance(one);
    if (error != 0 && error != EAGAIN) return error;
  }
  return std::ranges::all_of(all_, &One::done) ? 0 : EAGAIN;
}

/// The connector may replace its socket, so the reactor must not watch it meanwhile.
int Connecting::advance(One& one) noexcept {
  one.heard = false;
  context_.reactor.unwatch(one.connector.fd());
  const int error = one.connector.advance();
  one.done = error == 0;
  if (error == EAGAIN && one.connector.events() == POLLIN)
    context_.reactor.watch(one.connector.fd(), [this, &one] {
      one.heard = true;
      wake_();
    });
  return error;
}

bool Connecting::is_seen() const noexcept {
  return std::ranges::any_of(all_, [](const One& one) { return one.connector.is_connected(); });
}

void Connecting::arm() noexcept {
  for (const One& one : all_)
    if (!one.done && one.connector.events() == POLLOUT)
      context_.reactor.wait_writable(one.connector.fd(), [] {});  // to wake this rank is enough
}

void Connecting::cut() noexcept {
  for (const One& one : all_) net::shut_down(one.connector.socket());
}

void Connecting::wait(int milliseconds) noexcept {
  std::array<pollfd, Stripe::most> queries{};
  for (std::size_t i = 0; i < all_.size(); ++i)
    queries[i] = {all_[i].done ? -1 : all_[i].connector.fd(), all_[i].connector.events(), 0};
  if (::poll(queries.data(), all_.size(), milliseconds) <= 0) return;
  for (std::size_t i = 0; i < all_.size(); ++i) all_[i].heard |= (queries[i].revents & POLLIN) != 0;
}

std::vector<net::Socket> Connecting::take() noexcept {
  std::vector<net::Socket> sockets;
  for (One& one : std::exchange(all_, {})) {
    if (one.connector.socket()) context_.reactor.unwatch(one.connector.fd());
    sockets.push_back(one.connector.take());
  }
  return sockets;
}

}  // namespace tutti::transport::tcp
