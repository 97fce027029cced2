#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/export.h"

namespace tutti {
inline namespace TUTTI_ABI {

/// A small key-value store through which ranks find each other. Implement it to bring your own.
///
/// Values are byte strings. A blocking call throws Error{rendezvous} with the missing keys if `timeout()` passes first.
/// Limits:    at a server and in a file a key has at most 8 KiB, and a value 8 MiB.
/// Servers do not answer set(), append(), multi_set() and queue_push(): these return before the value is stored. It is
/// once a call of this object that has an answer, such as check(), returns. A failure may show only in a later call.
/// Threading: an object is used by one thread at a time; different objects on one store are independent. In a child of
/// fork() calls of the library's own stores are Error{invalid_argument}: open another one there.
class TUTTI_API Store {
 public:
  using Milliseconds = std::chrono::milliseconds;
  using KeyValue = std::pair<std::string, std::string>;

  virtual ~Store();

  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Waits until the key exists, then returns its value.
  virtual std::string get(std::string_view key) = 0;
  /// Adds to a decimal number (an absent key counts as 0) and returns the sum.
  virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;
  /// Sets `desired` if the value equals `expected` (an empty `expected` also matches an absent key);
  /// returns the value that is stored now, or `expected` where the key is absent and nothing was stored.
  virtual std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) = 0;
  /// Waits until all keys exist.
  virtual void wait(std::span<const std::string> keys) = 0;
  /// The same within `timeout` instead of timeout(). The default changes timeout() for the length of the call; a store
  /// that several threads share overrides it.
  virtual void wait_for(std::span<const std::string> keys, Milliseconds timeout);
  /// True when all keys exist now.
  virtual bool check(std::span<const std::string> keys) = 0;
  /// True when the key existed.
  virtual bool erase(std::string_view key) = 0;
  /// The number of keys, without queues: of the whole store, also through prefix_store().
  virtual std::int64_t key_count() = 0;
  /// Adds `value` to the end of the key's value; an absent key has an empty one.
  virtual void append(std::string_view key, std::string_view value) = 0;
  /// Waits until all keys exist, then returns their values in order. A server ends the connection of a client that
  /// wants more than 64 MiB at once, or 16 MiB from the store of `tutti run` at MASTER_PORT.
  virtual std::vector<std::string> multi_get(std::span<const std::string> keys) = 0;
  /// Sets all at once. A server gets more than 8 MiB or 131,072 keys in parts, between which others may read.
  virtual void multi_set(std::span<const KeyValue> pairs) = 0;

  /// Queues: first in, first out. A queue exists while it has values, and wait() and check() take its name like that of
  /// a key, so that one name is not for both: get() of a queue's name may give an empty value. A store of your own need
  /// not have them, nor list_keys(): the defaults throw Error{unsupported}.
  virtual void queue_push(std::string_view name, std::string_view value);
  /// Takes the oldest value; empty if there is none.
  virtual std::optional<std::string> queue_try_pop(std::string_view name);
  /// The same, but waits until there is one. Each value goes to one of those that wait.
  virtual std::string queue_pop(std::string_view name);
  /// The number of its values; 0 where there is no queue.
  virtual std::int64_t queue_length(std::string_view name);
  /// In any order, without names of queues. Throws Error{rendezvous} where a server's answer would be too long; the
  /// store goes on.
  virtual std::vector<std::string> list_keys();

  /// Another object on the same keys, for another thread. The default throws Error{unsupported}: a file counts those
  /// that have opened it.
  virtual std::shared_ptr<Store> clone();

  /// Above 0. It bounds each wait for keys and, at a server, each answer: if that is late, the connection is given up.
  Milliseconds timeout() const { return timeout_; }
  virtual void set_timeout(Milliseconds timeout) { timeout_ = timeout; }

 private:
  Milliseconds timeout_{300'000};
};

/// A store inside this process, shared by its threads: all but set_timeout() may be called by several at once.
TUTTI_API std::shared_ptr<Store> memory_store();

/// A store in a file on a (shared) file system, opened by `users` objects in all, and no more. The file is removed, and
/// the keys are lost, once all that have opened it so far have closed it, also if fewer than `users` have come: so keep
/// yours until the others have read. With 0 anybody may open it and it stays. A file left by a run that was killed is
/// an error, and so is one that another user owns or could read or replace, unless TUTTI_SECRET or TUTTI_SECRET_FILE is
/// set.
TUTTI_API std::shared_ptr<Store> file_store(const std::string& path, int users);

/// A client of a TCP store: `tutti store`, the one inside `tutti run`, or PyTorch's TCPStore.
///
/// With a secret (of the file `secret_file` that other users may not read, else TUTTI_SECRET or TUTTI_SECRET_FILE) the
/// store must have the same, and both prove that first; without one it must be open to everybody, as PyTorch's is.
/// The connection is encrypted if TUTTI_TLS=1, and then the store must encrypt, too.
/// `timeout` bounds connecting, and is the object's timeout() afterwards.
TUTTI_API std::shared_ptr<Store> tcp_store(const std::string& host, std::uint16_t port,
                                           Store::Milliseconds timeout = Store::Milliseconds{300'000},
                                           const std::string& secret_file = {});

/// A view of `store` in which every key is preceded by `prefix` + "/". Its timeout is its own and bounds its waits; a
/// single request is bounded by the timeout of `store`.
TUTTI_API std::shared_ptr<Store> prefix_store(std::string prefix, std::shared_ptr<Store> store);

}  // namespace TUTTI_ABI
}  // namespace tutti
