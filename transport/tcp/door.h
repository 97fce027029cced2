#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <string>

#include "transport/hello.h"
#include "transport/reactor.h"
#include "transport/tcp/socket.h"

namespace tutti::transport::tcp {

/// Lets peers in: the listening socket, and the connections that have not said hello yet.
///
/// A stranger costs one small record and nothing that it sends makes that grow. It gets exactly the bytes of a hello to
/// say who it is, in a few seconds, and is shown out without a word otherwise.
class Door {
 public:
  using Welcome = std::function<void(const Hello& hello, Socket socket)>;

  static constexpr std::size_t most_strangers = 128;

  /// `patience` with a stranger that says nothing. Throws Error{system} if `address` cannot be listened on.
  Door(Reactor& reactor, const Address& address, const JobToken& token, Clock::duration patience, Welcome welcome);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  const std::string& address() const { return address_; }
  std::size_t strangers() const { return strangers_.size(); }

  /// Accepts, reads hellos, shows out who took too long. `look`: even if the reactor has not seen anything.
  bool progress(bool look) noexcept;
  /// Asks the reactor to wake this rank when a stranger's time is up.
  void arm() noexcept;

 private:
  struct Stranger {
    Socket socket;
    Clock::time_point since;
    HelloBytes bytes;
    std::size_t have = 0;
    bool speaks = true;
  };
  using Place = std::list<Stranger>::iterator;

  void open() noexcept;
  void pause(Clock::time_point until) noexcept;
  void accept_all(Clock::time_point now) noexcept;
  void hear(Place stranger) noexcept;
  void show_out(Place stranger) noexcept;

  Reactor& reactor_;
  JobToken token_;
  Clock::duration patience_;
  Clock::duration least_patience_;  ///< when others wait for the place
  Welcome welcome_;
  Socket listener_;
  std::string address_;
  bool knocked_ = false;
  bool spoken_ = false;               ///< some stranger speaks
  bool open_ = false;                 ///< the reactor watches the listener
  Clock::time_point closed_until_{};  ///< where it does not
  std::list<Stranger> strangers_;     ///< oldest first
};

}  // namespace tutti::transport::tcp
