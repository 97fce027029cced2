#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/security/secret.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/store_socket.h"
#include "tests/support/text.h"
#include "tutti/error.h"
#include "tutti/store.h"

namespace tutti::testing {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Long enough for anything that will happen at all, also under a sanitizer on a busy machine.
inline constexpr std::chrono::milliseconds patience{30'000};

inline Clock::time_point late() { return Clock::now() + patience; }

inline const rendezvous::Endpoint any_port{"127.0.0.1", 0};

inline const Secret job_secret = Secret::from_text("known to members only", "test");
inline const Secret no_secret;

/// A folder that goes with this object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  bool is_empty() const;

 private:
  std::string path_;
};

/// What `call` throws; code `system` and no text when it throws nothing.
Error error_of(const std::function<void()>& call);

/// Runs body(i) for 0 <= i < count in a thread each; rethrows the first exception.
void run_threads(int count, const std::function<void(int)>& body);

/// The first listener there.
net::Socket listen_on(const rendezvous::Endpoint& endpoint);

/// Looks again until `condition` holds; false when it never does.
bool eventually(const std::function<bool()>& condition);

/// The bytes that a test writes down in hex, blanks ignored: "00 ce f7 85 3c".
std::string bytes(std::string_view hex);
std::string hex(std::string_view bytes);

/// What a client says first.
std::string greeting();
inline constexpr const char* greeting_in_hex = "00 ce f7 85 3c";

/// Somebody who speaks to a server byte by byte.
class RawClient {
 public:
  explicit RawClient(const rendezvous::Endpoint& server);
  explicit RawClient(Descriptor socket) : socket_(std::move(socket)) {}
  void send(std::string_view bytes);
  /// Exactly `count` bytes; fewer if the connection ends.
  std::string recv(std::size_t count);
  /// True when the other side closes the connection before it sends anything.
  bool is_closed();
  /// True when nothing has come by now: neither bytes nor the end.
  bool is_silent() const;
  int get() const { return socket_.get(); }

 private:
  Descriptor socket_;
};

}  // namespace tutti::testing
