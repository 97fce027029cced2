#include "store.h"

#include <c10/util/Exception.h>

#include "errors.h"
#include "interrupts.h"
#include "torch_version.h"

namespace tutti_torch {
namespace {

using Bytes = TuttiStore::Bytes;
using std::chrono::milliseconds;

/// PyTorch's programs expect this error of a store, also where a wait has timed out.
void check_store(tutti_result result) {
  if (result == TUTTI_OK) return;
  rethrow_interrupt();
  const std::string text = tutti_last_error();
  TORCH_CHECK_VALUE(!is_wrong_call(result), text);
  C10_THROW_ERROR(DistStoreError, text);
}

/// PyTorch's zero stands for no limit; ours is a hundred years.
std::int64_t limit(milliseconds timeout) {
  constexpr milliseconds no_limit = std::chrono::hours{24 * 365 * 100};
  return (timeout.count() > 0 ? timeout : no_limit).count();
}

const char* c_text(const std::string& key) {
  TORCH_CHECK_VALUE(key.find('\0') == std::string::npos, "tutti: a key of a store is a text without zero bytes");
  return key.c_str();
}

std::vector<const char*> c_texts(const std::vector<std::string>& keys) {
  std::vector<const char*> texts;
  texts.reserve(keys.size());
  for (const std::string& key : keys) texts.push_back(c_text(key));
  return texts;
}

/// What tutti_store_get() calls.
void take(const void* value, std::uint64_t bytes, void* context) {
  const auto* const begin = static_cast<const std::uint8_t*>(value);
  static_cast<std::vector<Bytes>*>(context)->emplace_back(begin, begin + bytes);
}

}  // namespace

template <class... Parameters, class... Arguments>
void TuttiStore::call(tutti_result (*function)(tutti_store*, Parameters...), Arguments&&... arguments) {
  const std::lock_guard lock{mutex_};
  check_store(function(store_, std::forward<Arguments>(arguments)...));
}

c10::intrusive_ptr<c10d::Store> TuttiStore::clone() {
  tutti_store* made = nullptr;
  call(tutti_store_clone, &made);
  return c10::make_intrusive<TuttiStore>(made, timeout_);
}

void TuttiStore::set(const std::string& key, const Bytes& value) {
  call(tutti_store_set, c_text(key), value.data(), value.size());
}

Bytes TuttiStore::compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) {
  std::vector<Bytes> values;
  call(tutti_store_compare_set, c_text(key), expected.data(), expected.size(), desired.data(), desired.size(), take,
       &values);
  return values.front();
}

Bytes TuttiStore::get(const std::string& key) { return multiGet({key}).front(); }

std::int64_t TuttiStore::add(const std::string& key, std::int64_t delta) {
  std::int64_t sum = 0;
  call(tutti_store_add, c_text(key), delta, &sum);
  return sum;
}

bool TuttiStore::deleteKey(const std::string& key) {
  std::int32_t existed = 0;
  call(tutti_store_erase, c_text(key), &existed);
  return existed != 0;
}

bool TuttiStore::check(const Keys& keys) {
  std::int32_t all = 0;
  call(tutti_store_check, c_texts(keys).data(), keys.size(), &all);
  return all != 0;
}

std::int64_t TuttiStore::getNumKeys() {
  std::int64_t keys = 0;
  call(tutti_store_key_count, &keys);
  return keys;
}

void TuttiStore::wait(const Keys& keys) { wait(keys, timeout_); }

void TuttiStore::wait(const Keys& keys, const milliseconds& timeout) {
  call(tutti_store_wait, c_texts(keys).data(), keys.size(), limit(timeout));
}

void TuttiStore::setTimeout(const milliseconds& timeout) {
  call(tutti_store_set_timeout, limit(timeout));
  c10d::Store::setTimeout(timeout);
}

void TuttiStore::append(const std::string& key, const Bytes& value) {
  call(tutti_store_append, c_text(key), value.data(), value.size());
}

std::vector<Bytes> TuttiStore::multiGet(const Keys& keys) {
  std::vector<Bytes> values;
  call(tutti_store_get, c_texts(keys).data(), keys.size(), take, &values);
  return values;
}

void TuttiStore::multiSet(const Keys& keys, const std::vector<Bytes>& values) {
  TORCH_CHECK_VALUE(keys.size() == values.size(), "tutti: multi_set of ", keys.size(), " keys has ", values.size(),
                    " values");
  for (std::size_t i = 0; i < keys.size(); ++i) set(keys[i], values[i]);  // of which the server confirms none
}

void TuttiStore::queuePush(const std::string& name, const Bytes& value) {
  call(tutti_store_queue_push, c_text(name), value.data(), value.size());
}

Bytes TuttiStore::queuePop(const std::string& name, bool block) {
  std::vector<Bytes> values;
  call(tutti_store_queue_pop, c_text(name), block ? 1 : 0, take, &values);
  if (!values.empty()) return values.front();
  const std::string text = "tutti: the queue \"" + name + "\" is empty: nothing was pushed, or others took it. " +
                           "queue_pop() without block=False waits for a value, as long as set_timeout() says.";
#if TUTTI_TORCH_IS(2, 8)
  C10_THROW_ERROR(DistQueueEmptyError, text);
#else
  C10_THROW_ERROR(DistStoreError, text);
#endif
}

std::int64_t TuttiStore::queueLen(const std::string& name) {
  std::int64_t values = 0;
  call(tutti_store_queue_length, c_text(name), &values);
  return values;
}

TuttiStore::Keys TuttiStore::listKeys() {
  std::vector<Bytes> names;
  call(tutti_store_list_keys, take, &names);
  Keys keys;
  for (const Bytes& name : names) keys.emplace_back(name.begin(), name.end());
  return keys;
}

c10::intrusive_ptr<TuttiStore> open_store(tutti_connect_options options, milliseconds timeout) {
  options.size = sizeof options;
  options.setup_timeout_ms = limit(timeout);
  tutti_store* store = nullptr;
  check_store(tutti_store_open(&options, &store));
  return c10::make_intrusive<TuttiStore>(store, timeout);
}

}  // namespace tutti_torch
