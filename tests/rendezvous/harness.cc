#include "tests/rendezvous/harness.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <exception>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "rendezvous/tcp_protocol.h"

namespace tutti::testing {

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "tutti-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

bool TempFolder::is_empty() const { return std::filesystem::is_empty(path_); }

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::system, ""};
}

void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (...) {
        failures[static_cast<std::size_t>(i)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

net::Socket listen_on(const rendezvous::Endpoint& endpoint) {
  auto listeners = rendezvous::listen_on(endpoint, rendezvous::await_addresses(endpoint, late()));
  return std::move(listeners.front());
}

bool eventually(const std::function<bool()>& condition) {
  for (const auto end = Clock::now() + patience; Clock::now() < end; std::this_thread::sleep_for(1ms))
    if (condition()) return true;
  return false;
}

std::string bytes(std::string_view hex) {
  std::string result;
  std::string digits;
  for (const char c : hex) {
    if (c == ' ' || c == '\n') continue;
    digits += c;
    if (digits.size() < 2) continue;
    result.push_back(static_cast<char>(std::stoi(digits, nullptr, 16)));
    digits.clear();
  }
  return result;
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (!result.empty()) result += ' ';
    result += digits[byte >> 4];
    result += digits[byte & 15];
  }
  return result;
}

std::string greeting() {
  return rendezvous::StoreMessage{rendezvous::StoreOp::validate}.u32(rendezvous::store_magic).bytes();
}

RawClient::RawClient(const rendezvous::Endpoint& server)
    : socket_(rendezvous::connect_to(server, Clock::now() + patience)) {}

void RawClient::send(std::string_view bytes) {
  // A server that refuses may close before it has taken everything.
  rendezvous::send_all(socket_, bytes, Clock::now() + patience);
}

std::string RawClient::recv(std::size_t count) {
  std::string result(count, '\0');
  std::size_t have = 0;
  while (have < count) {
    pollfd entry{socket_.get(), POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(patience.count())) <= 0) break;
    const ssize_t got = ::recv(socket_.get(), result.data() + have, count - have, 0);
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  result.resize(have);
  return result;
}

bool RawClient::is_closed() {
  return eventually([&] { return !is_silent(); }) && recv(1).empty();
}

bool RawClient::is_silent() const {
  pollfd entry{socket_.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) == 0;
}

}  // namespace tutti::testing
