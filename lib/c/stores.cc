// Stores of the C interface.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/environment.h"
#include "lib/base/host.h"
#include "lib/c/arguments.h"
#include "lib/c/connect_options.h"
#include "lib/c/guarded.h"
#include "lib/c/handles.h"
#include "lib/observe/log.h"
#include "lib/security/job_secret.h"
#include "rendezvous/launchers.h"

namespace tutti::c_api {
namespace {

/// The store at which connect() would meet. It counts as one that this rank has opened there, so that its keys are
/// apart from those of communicators.
std::shared_ptr<Store> open_store(const tutti_connect_options& from) {
  if (from.id || from.all_gather)
    throw Wrong{"id and all_gather are for tutti_connect(): give a rendezvous, or none for the launcher's store"};
  if (from.setup_timeout_ms < 0) throw Wrong{fmt::format("a timeout of {} ms is negative", from.setup_timeout_ms)};
  check_environment(environ);
  const ConnectOptions options = cpp_options(from);
  const rendezvous::Launch launch = rendezvous::find_launch(options, variable, rendezvous::MeetFor::store);
  const Secret secret = job_secret(options.secret_file);
  const Store::Milliseconds timeout = setup_timeout(from);
  auto store =
      rendezvous::open_store(launch, timeout, {secret, insecure_allowed(), job_tls_proxies(secret, options.tls)},
                             Log::from_environment(launch.rank, host_name()));
  return prefix_store(launch.prefix, std::move(store));
}

Store& opened(tutti_store* store) { return *given(store, "store").store; }

std::string_view value_of(const void* value, std::uint64_t bytes, const char* name) {
  if (!value && bytes > 0) refuse_null(name);
  return {static_cast<const char*>(value), bytes};
}

std::vector<std::string> keys_of(const char* const* keys, std::uint64_t count) {
  if (count > std::numeric_limits<std::uint32_t>::max()) throw Wrong{fmt::format("{} keys are too many", count)};
  if (count > 0) given(keys, "keys");
  std::vector<std::string> found;
  for (std::uint64_t i = 0; i < count; ++i) found.emplace_back(&given(keys[i], "a key"));
  return found;
}

}  // namespace
}  // namespace tutti::c_api

using namespace tutti::c_api;
using tutti::Store;

extern "C" {

tutti_result tutti_store_open(const tutti_connect_options* options, tutti_store** store) {
  return guarded(__func__, [&] {
    given(store, "store") = nullptr;
    auto made = open_store(given_options(options));
    *store = new tutti_store{made, made};
  });
}

tutti_result tutti_store_clone(tutti_store* store, tutti_store** made) {
  return guarded(__func__, [&] {
    given(made, "made") = nullptr;
    *made = new tutti_store{opened(store).clone(), store->first};
  });
}

tutti_result tutti_store_free(tutti_store* store) {
  return guarded(__func__, [&] { delete store; });
}

tutti_result tutti_store_set_timeout(tutti_store* store, int64_t timeout_ms) {
  return guarded(__func__, [&] {
    if (timeout_ms <= 0) throw Wrong{fmt::format("a timeout of {} ms is not above 0", timeout_ms)};
    opened(store).set_timeout(milliseconds_of(timeout_ms));
  });
}

tutti_result tutti_store_set(tutti_store* store, const char* key, const void* value, uint64_t bytes) {
  return guarded(__func__, [&] { opened(store).set(&given(key, "key"), value_of(value, bytes, "value")); });
}

tutti_result tutti_store_append(tutti_store* store, const char* key, const void* value, uint64_t bytes) {
  return guarded(__func__, [&] { opened(store).append(&given(key, "key"), value_of(value, bytes, "value")); });
}

tutti_result tutti_store_get(tutti_store* store, const char* const* keys, uint64_t count, tutti_value_function take,
                             void* context) {
  return guarded(__func__, [&] {
    if (!take) refuse_null("take");
    for (const std::string& value : opened(store).multi_get(keys_of(keys, count)))
      take(value.data(), value.size(), context);
  });
}

tutti_result tutti_store_compare_set(tutti_store* store, const char* key, const void* expected, uint64_t expected_bytes,
                                     const void* desired, uint64_t desired_bytes, tutti_value_function take,
                                     void* context) {
  return guarded(__func__, [&] {
    if (!take) refuse_null("take");
    const std::string value =
        opened(store).compare_set(&given(key, "key"), value_of(expected, expected_bytes, "expected"),
                                  value_of(desired, desired_bytes, "desired"));
    take(value.data(), value.size(), context);
  });
}

tutti_result tutti_store_add(tutti_store* store, const char* key, int64_t delta, int64_t* sum) {
  return guarded(__func__, [&] { give(sum, "sum", [&] { return opened(store).add(&given(key, "key"), delta); }); });
}

tutti_result tutti_store_wait(tutti_store* store, const char* const* keys, uint64_t count, int64_t timeout_ms) {
  return guarded(__func__, [&] {
    if (timeout_ms < 0) throw Wrong{fmt::format("a timeout of {} ms is negative", timeout_ms)};
    Store& own = opened(store);
    own.wait_for(keys_of(keys, count), timeout_ms > 0 ? milliseconds_of(timeout_ms) : own.timeout());
  });
}

tutti_result tutti_store_check(tutti_store* store, const char* const* keys, uint64_t count, int32_t* all) {
  return guarded(__func__,
                 [&] { give(all, "all", [&] { return opened(store).check(keys_of(keys, count)) ? 1 : 0; }); });
}

tutti_result tutti_store_erase(tutti_store* store, const char* key, int32_t* existed) {
  return guarded(__func__,
                 [&] { give(existed, "existed", [&] { return opened(store).erase(&given(key, "key")) ? 1 : 0; }); });
}

tutti_result tutti_store_queue_push(tutti_store* store, const char* name, const void* value, uint64_t bytes) {
  return guarded(__func__, [&] { opened(store).queue_push(&given(name, "name"), value_of(value, bytes, "value")); });
}

tutti_result tutti_store_queue_pop(tutti_store* store, const char* name, int32_t wait, tutti_value_function take,
                                   void* context) {
  return guarded(__func__, [&] {
    if (!take) refuse_null("take");
    Store& own = opened(store);
    const auto value = wait ? own.queue_pop(&given(name, "name")) : own.queue_try_pop(&given(name, "name"));
    if (value) take(value->data(), value->size(), context);
  });
}

tutti_result tutti_store_queue_length(tutti_store* store, const char* name, int64_t* values) {
  return guarded(__func__,
                 [&] { give(values, "values", [&] { return opened(store).queue_length(&given(name, "name")); }); });
}

tutti_result tutti_store_list_keys(tutti_store* store, tutti_value_function take, void* context) {
  return guarded(__func__, [&] {
    if (!take) refuse_null("take");
    for (const std::string& key : opened(store).list_keys()) take(key.data(), key.size(), context);
  });
}

tutti_result tutti_store_key_count(tutti_store* store, int64_t* keys) {
  return guarded(__func__, [&] { give(keys, "keys", [&] { return opened(store).key_count(); }); });
}

}  // extern "C"
