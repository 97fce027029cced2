#pragma once

#include <tutti/c_store.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

namespace tutti_torch {

/// tutti's store as one of PyTorch's.
///
/// Threading: calls of several threads take turns, so what must not wait for another thread's wait() needs a clone.
class TuttiStore final : public c10d::Store {
 public:
  using Bytes = std::vector<std::uint8_t>;
  using Keys = std::vector<std::string>;
  using Milliseconds = std::chrono::milliseconds;

  /// Takes over what tutti_store_open() or tutti_store_clone() has made.
  TuttiStore(tutti_store* store, Milliseconds timeout) : c10d::Store(timeout), store_(store) {}
  ~TuttiStore() override { tutti_store_free(store_); }
  TuttiStore(const TuttiStore&) = delete;
  TuttiStore& operator=(const TuttiStore&) = delete;

  /// Virtual since PyTorch 2.8.
  c10::intrusive_ptr<c10d::Store> clone();
  void set(const std::string& key, const Bytes& value) override;
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override;
  Bytes get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  bool deleteKey(const std::string& key) override;
  bool check(const Keys& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const Keys& keys) override;
  void wait(const Keys& keys, const Milliseconds& timeout) override;
  void setTimeout(const Milliseconds& timeout) override;
  void append(const std::string& key, const Bytes& value) override;
  std::vector<Bytes> multiGet(const Keys& keys) override;
  void multiSet(const Keys& keys, const std::vector<Bytes>& values) override;
  bool hasExtendedApi() const override { return true; }
  /// Virtual since PyTorch 2.8.
  void queuePush(const std::string& name, const Bytes& value);
  Bytes queuePop(const std::string& name, bool block);
  std::int64_t queueLen(const std::string& name);
  /// Virtual since PyTorch 2.10.
  Keys listKeys();

 private:
  template <class... Parameters, class... Arguments>
  void call(tutti_result (*function)(tutti_store*, Parameters...), Arguments&&... arguments);

  std::mutex mutex_;
  tutti_store* store_;
};

/// Opens the store at which tutti_connect() would meet with `options`, whose timeout is `timeout`.
c10::intrusive_ptr<TuttiStore> open_store(tutti_connect_options options, std::chrono::milliseconds timeout);

}  // namespace tutti_torch
