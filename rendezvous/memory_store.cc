// A store inside this process: a table, a lock, and a condition that is signalled whenever a key may have been set.

#include "rendezvous/memory_store.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "lib/base/clocks.h"
#include "lib/base/wait_hook.h"
#include "rendezvous/kv_table.h"
#include "rendezvous/store_errors.h"
#include "tutti/store.h"

namespace tutti {
namespace {

using rendezvous::Table;

class MemoryStore final : public Store, public std::enable_shared_from_this<MemoryStore> {
 public:
  explicit MemoryStore(std::string where) : where_(std::move(where)) {}

  void set(std::string_view key, std::string_view value) override {
    change([&] { table_.set(key, value); });
  }

  std::string get(std::string_view key) override {
    const std::string name{key};
    std::unique_lock lock = locked();
    wait_locked(lock, {&name, 1}, timeout(), &Table::has_all);
    return *table_.find(name);
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return change([&] {
      const auto sum = table_.sum(key, delta);
      if (!sum) throw rendezvous::not_addable(where_, key);
      table_.set(key, std::to_string(*sum));
      return *sum;
    });
  }

  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return change([&] {
      if (!table_.matches(key, expected)) return table_.current_or(key, expected);
      table_.set(key, desired);
      return std::string{desired};
    });
  }

  void wait(std::span<const std::string> keys) override { wait_for(keys, timeout()); }

  void wait_for(std::span<const std::string> keys, Milliseconds timeout) override {
    std::unique_lock lock = locked();
    wait_locked(lock, keys, timeout, &Table::all_exist);
  }

  bool check(std::span<const std::string> keys) override {
    const std::unique_lock lock = locked();
    return table_.all_exist(keys);
  }

  bool erase(std::string_view key) override {
    return change([&] { return table_.erase(key); });
  }

  std::int64_t key_count() override {
    const std::unique_lock lock = locked();
    return static_cast<std::int64_t>(table_.size());
  }

  void append(std::string_view key, std::string_view value) override {
    change([&] { table_.append(key, value); });
  }

  std::vector<std::string> multi_get(std::span<const std::string> keys) override {
    std::unique_lock lock = locked();
    wait_locked(lock, keys, timeout(), &Table::has_all);
    std::vector<std::string> values;
    for (const std::string& key : keys) values.push_back(*table_.find(key));
    return values;
  }

  void multi_set(std::span<const KeyValue> pairs) override {
    change([&] {
      for (const auto& [key, value] : pairs) table_.set(key, value);
    });
  }

  void queue_push(std::string_view name, std::string_view value) override {
    change([&] { table_.push(name, value); });
  }

  std::optional<std::string> queue_try_pop(std::string_view name) override {
    const std::unique_lock lock = locked();
    return table_.pop(name);
  }

  std::int64_t queue_length(std::string_view name) override {
    const std::unique_lock lock = locked();
    return static_cast<std::int64_t>(table_.queue_length(name));
  }

  std::vector<std::string> list_keys() override {
    const std::unique_lock lock = locked();
    return table_.keys();
  }

  /// All threads share the object.
  std::shared_ptr<Store> clone() override { return shared_from_this(); }

 private:
  /// There are few waiters and set-up is short, so waking all of them costs less than tracking the key that each waits
  /// for.
  template <class Body>
  std::invoke_result_t<Body> change(Body body) {
    rendezvous::require_own_process(mark_, where_);  // before a child announces anything
    struct Announce {
      std::condition_variable& changed;
      ~Announce() { changed.notify_all(); }
    } announce{changed_};
    const std::unique_lock lock = locked();
    return body();
  }

  std::unique_lock<std::mutex> locked() {
    rendezvous::require_own_process(mark_, where_);
    return std::unique_lock{mutex_};
  }

  using Are = bool (Table::*)(std::span<const std::string>) const;

  void wait_locked(std::unique_lock<std::mutex>& lock, std::span<const std::string> keys, Milliseconds timeout,
                   Are are_there) {
    const auto deadline = deadline_after(timeout);
    while (!changed_.wait_until(lock, next_question(deadline), [&] { return (table_.*are_there)(keys); })) {
      if (std::chrono::steady_clock::now() >= deadline) throw rendezvous::waited_in_vain(where_, keys, timeout);
      lock.unlock();  // the program may use the store in its answer
      end_if_program_interrupts();
      lock.lock();
    }
  }

  const std::string where_;  // for errors
  const ForkMark mark_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Table table_;
};

}  // namespace

std::shared_ptr<Store> rendezvous::open_memory_store(std::string where) {
  return std::make_shared<MemoryStore>(std::move(where));
}

std::shared_ptr<Store> tutti::memory_store() { return rendezvous::open_memory_store("memory store"); }

}  // namespace tutti
