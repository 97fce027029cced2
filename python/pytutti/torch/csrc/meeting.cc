#include "meeting.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "errors.h"
#include "interrupts.h"

namespace tutti_torch {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Rank 0 opens a place to meet and publishes its id; if it cannot, its error, so that the others do not wait.
tutti_unique_id publish(c10d::Store& store, const std::string& key) {
  tutti_unique_id id{};
  if (const tutti_result result = tutti_unique_id_create(&id); result != TUTTI_OK) {
    const std::string error = tutti_last_error();
    store.set(key, Bytes(error.begin(), error.end()));
    fail(result);
  }
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(id.bytes);
  store.set(key, Bytes(bytes, bytes + sizeof id.bytes));
  return id;
}

tutti_unique_id fetch(c10d::Store& store, const std::string& key, int rank, std::chrono::milliseconds timeout) {
  try {
    store.wait({key}, timeout);
  } catch (const std::exception& error) {
    fail_with(c10::str(
        "tutti: rank ", rank, " waited ", timeout.count(),
        " ms at PyTorch's store for rank 0, which has not told "
        "where ranks meet: see whether rank 0 runs and calls init_process_group() or new_group() with the same "
        "ranks. The store says: ",
        error.what()));
  }
  const Bytes bytes = store.get(key);
  tutti_unique_id id{};
  if (bytes.size() != sizeof id.bytes)
    fail_with("tutti: rank 0 could not open a place to meet: " + std::string(bytes.begin(), bytes.end()));
  std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
  return id;
}

/// The first rank that fails to connect tells the others why, who otherwise know only that it does not come.
[[noreturn]] void fail_together(c10d::Store& store, const std::string& key, int rank, tutti_result result) {
  const std::string own = tutti_last_error();
  std::string first;
  try {
    if (store.check({key})) {
      const Bytes bytes = store.get(key);
      first.assign(bytes.begin(), bytes.end());
    } else {
      const std::string text = c10::str("rank ", rank, ": ", own);
      store.set(key, Bytes(text.begin(), text.end()));
    }
  } catch (const std::exception&) {
    // The store has gone, too; the own error remains.
  }
  rethrow_interrupt();
  TORCH_CHECK_VALUE(!is_wrong_call(result), own);
  fail_with(first.empty() ? own : own + " The first failure was that of " + first);
}

}  // namespace

tutti_comm* meet(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout, const Settings& settings) {
  // A program may make, destroy and make again a group of one name: each round has keys of its own.
  const std::int64_t round = (store.add("tutti/ranks", 1) - 1) / size;
  const std::string key = c10::str("tutti/", round, "/id");
  const tutti_unique_id id = rank == 0 ? publish(store, key) : fetch(store, key, rank, timeout);
  tutti_connect_options options{};
  options.size = sizeof options;
  options.rank = rank;
  options.ranks = size;
  options.id = &id;
  options.transport = settings.transport.c_str();
  options.tuning_file = settings.tuning_file.c_str();
  options.plan_file = settings.plan_file.c_str();
  options.setup_timeout_ms = options.timeout_ms = timeout.count();
  options.lost_after_ms = settings.lost_after.count();
  options.deterministic = settings.deterministic ? 1 : 0;
  options.tls = settings.tls ? 1 : 0;
  tutti_comm* comm = nullptr;
  if (const tutti_result result = tutti_connect(&options, &comm); result != TUTTI_OK)
    fail_together(store, c10::str("tutti/", round, "/failure"), rank, result);
  return comm;
}

tutti_comm* sub_group(tutti_comm* parent, const std::vector<int>& ranks) {
  tutti_comm* made = nullptr;
  check(tutti_comm_subgroup(parent, ranks.data(), ranks.size(), &made));
  return made;
}

}  // namespace tutti_torch
