// The common part of all stores, and the view of a store under a prefix.

#include "tutti/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>

#include "lib/base/clocks.h"
#include "lib/base/internals.h"
#include "rendezvous/patience.h"
#include "rendezvous/store_errors.h"
#include "tutti/error.h"

namespace tutti {
namespace {

Error without_queues() { return {ErrorCode::unsupported, "a store of this kind has no queues"}; }

}  // namespace

Store::~Store() = default;

std::shared_ptr<Store> Store::clone() {
  throw Error{ErrorCode::unsupported, "a store of this kind has no clones: open it once more for the other thread"};
}

void Store::wait_for(std::span<const std::string> keys, Milliseconds timeout) {
  struct Restore {
    Store& store;
    Milliseconds timeout;
    ~Restore() { store.set_timeout(timeout); }
  } restore{*this, timeout_};
  set_timeout(timeout);
  wait(keys);
}

void Store::queue_push(std::string_view, std::string_view) { throw without_queues(); }

std::optional<std::string> Store::queue_try_pop(std::string_view) { throw without_queues(); }

std::int64_t Store::queue_length(std::string_view) { throw without_queues(); }

std::vector<std::string> Store::list_keys() {
  throw Error{ErrorCode::unsupported, "a store of this kind cannot list its keys"};
}

/// Another client may take the value for which this one was woken, and a key of the queue's name ends every wait at
/// once, so that this has to pause. A server may wake a client that does not take the value, and no other one, so a
/// wait is short, and the queue is asked after each.
std::string Store::queue_pop(std::string_view name) {
  using Clock = std::chrono::steady_clock;
  constexpr Milliseconds longest_wait{1000};
  const std::string key{name};
  const auto end = deadline_after(timeout_);
  for (rendezvous::Patience patience{end};; patience.pause()) {
    if (auto value = queue_try_pop(name)) return *std::move(value);
    if (patience.is_over()) break;
    const auto rest = std::chrono::ceil<Milliseconds>(end - Clock::now());
    try {
      wait_for({&key, 1}, std::clamp(rest, Milliseconds{1}, longest_wait));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::rendezvous) throw;  // if the store is lost, asking for the value says so
    }
    if (auto value = queue_try_pop(name)) return *std::move(value);
  }
  throw Error{
      ErrorCode::rendezvous,
      fmt::format("waited {} for a value of queue \"{}\": nothing was pushed, or other clients took it, or there "
                  "is a key of this name. The process that pushes may not have started, may have failed, or uses "
                  "another store or job name. If it only is late, wait longer (set_timeout()).",
                  rendezvous::in_seconds(timeout_), name)};
}

namespace {

/// Its timeout is its own and is passed on with each wait, so that several views of one store do not disturb each
/// other.
class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store)
      : prefix_(std::move(prefix) + "/"), store_(std::move(store)) {
    Store::set_timeout(store_->timeout());
  }

  void set(std::string_view key, std::string_view value) override {
    named([&] { store_->set(full(key), value); });
  }

  std::string get(std::string_view key) override {
    const std::string name = full(key);
    return named([&] {
      wait_as_told({&name, 1});
      return store_->get(name);
    });
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return named([&] { return store_->add(full(key), delta); });
  }

  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return named([&] { return store_->compare_set(full(key), expected, desired); });
  }

  void wait(std::span<const std::string> keys) override { wait_for(keys, timeout()); }

  void wait_for(std::span<const std::string> keys, Milliseconds timeout) override {
    named([&] { store_->wait_for(full(keys), timeout); });
  }

  bool check(std::span<const std::string> keys) override {
    return named([&] { return store_->check(full(keys)); });
  }

  bool erase(std::string_view key) override {
    return named([&] { return store_->erase(full(key)); });
  }

  /// Of the whole store: the protocol cannot count a part.
  std::int64_t key_count() override { return store_->key_count(); }

  void append(std::string_view key, std::string_view value) override {
    named([&] { store_->append(full(key), value); });
  }

  std::vector<std::string> multi_get(std::span<const std::string> keys) override {
    const std::vector<std::string> names = full(keys);
    return named([&] {
      wait_as_told(names);
      return store_->multi_get(names);
    });
  }

  void multi_set(std::span<const KeyValue> pairs) override {
    std::vector<KeyValue> full_pairs{pairs.begin(), pairs.end()};
    for (KeyValue& pair : full_pairs) pair.first.insert(0, prefix_);
    named([&] { store_->multi_set(full_pairs); });
  }

  void queue_push(std::string_view name, std::string_view value) override {
    named([&] { store_->queue_push(full(name), value); });
  }

  std::optional<std::string> queue_try_pop(std::string_view name) override {
    return named([&] { return store_->queue_try_pop(full(name)); });
  }

  std::int64_t queue_length(std::string_view name) override {
    return named([&] { return store_->queue_length(full(name)); });
  }

  /// Those of this view, as it names them.
  std::vector<std::string> list_keys() override {
    std::vector<std::string> names;
    for (const std::string& key : store_->list_keys())
      if (key.starts_with(prefix_)) names.push_back(key.substr(prefix_.size()));
    return names;
  }

  std::shared_ptr<Store> clone() override {
    auto made = std::make_shared<PrefixStore>(*this);
    made->store_ = store_->clone();
    return made;
  }

 private:
  std::string full(std::string_view key) const { return prefix_ + std::string{key}; }

  std::vector<std::string> full(std::span<const std::string> keys) const {
    std::vector<std::string> names;
    names.reserve(keys.size());
    for (const std::string& key : keys) names.push_back(full(key));
    return names;
  }

  /// Errors name keys as the caller of this view does.
  template <class Body>
  std::invoke_result_t<Body> named(Body body) const {
    try {
      return body();
    } catch (const Error& error) {
      const std::string quoted = '"' + prefix_;
      std::string text = error.what();
      for (std::size_t at = text.find(quoted); at != std::string::npos; at = text.find(quoted, at + 1))
        text.erase(at + 1, prefix_.size());
      if (text == error.what()) throw;
      Error renamed{error.code(), text, error.rank(), error.operation()};
      detail::Internals::set_details(renamed, error.details());
      throw renamed;
    }
  }

  /// Reads wait in the store underneath, with that store's timeout. If both timeouts are equal, this saves a round
  /// trip.
  void wait_as_told(std::span<const std::string> names) {
    if (store_->timeout() != timeout()) store_->wait_for(names, timeout());
  }

  std::string prefix_;
  std::shared_ptr<Store> store_;
};

}  // namespace

std::shared_ptr<Store> tutti::prefix_store(std::string prefix, std::shared_ptr<Store> store) {
  return std::make_shared<PrefixStore>(std::move(prefix), std::move(store));
}

}  // namespace tutti
