// A program with an Asio of its own, which is at work while the program talks to the other ranks.
#include <tutti/tutti.h>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

int main() {
  using asio::ip::tcp;
  asio::io_context context;
  tcp::acceptor acceptor{context, tcp::endpoint{asio::ip::address_v4::loopback(), 0}};
  tcp::socket caller{context}, called{context};
  asio::steady_timer timer{context, std::chrono::milliseconds{1}};
  auto comm = tutti::connect();
  std::vector<float> data(1000);
  std::iota(data.begin(), data.end(), static_cast<float>(comm.rank()));

  const std::string greeting = "hello";
  std::string received(greeting.size(), ' ');
  int done = 0;
  const auto count = [&](const asio::error_code& failure, std::size_t) { done += failure ? 0 : 1; };
  acceptor.async_accept(called, [&](const asio::error_code& failure) {
    if (!failure) asio::async_read(called, asio::buffer(received), count);
  });
  caller.async_connect(acceptor.local_endpoint(), [&](const asio::error_code& failure) {
    if (!failure) asio::async_write(caller, asio::buffer(greeting), count);
  });
  timer.async_wait([&](const asio::error_code& failure) {
    comm.all_reduce(data, tutti::sum);
    count(failure, 0);
  });
  context.run();
  if (done != 3 || received != greeting) return 1;
  std::printf("rank %d of %d: %.0f\n", comm.rank(), comm.size(), static_cast<double>(data.back()));
}
