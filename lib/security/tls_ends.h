#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "lib/base/net/socket.h"

namespace tutti {

/// The connections behind the ends that TlsProxies gives to its users. An end is known by its socket, so a duplicate of
/// its descriptor will do, too. Threading: any.
class TlsEnds {
  enum class Name : std::uint64_t;
  struct Behind {
    std::optional<int> connection;
    int error = 0;
  };

 public:
  /// What is known of one end, while it lives.
  class Entry {
   public:
    /// Throws.
    Entry(TlsEnds& ends, net::SocketView end, net::SocketView connection);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    /// Why the connection has ended: errno.
    void note(int error) noexcept;
    /// Call it before the connection is closed.
    void disconnect() noexcept;

   private:
    TlsEnds& ends_;
    Name name_;
  };

  /// A duplicate of the connection's descriptor, for a short look; empty: there is none.
  net::Socket connection_behind(net::SocketView end) const noexcept;
  /// What was noted, or else 0.
  int error_behind(net::SocketView end) const noexcept;

 private:
  static std::optional<Name> name_of(net::SocketView end) noexcept;
  const Behind* find(net::SocketView end) const noexcept;

  mutable std::mutex mutex_;
  std::map<Name, Behind> all_;
};

}  // namespace tutti
