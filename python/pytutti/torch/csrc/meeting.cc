#include "meeting.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "errors.h"
#include "interrupts.h"

namespace tutti_torch {
namespace {

using Bytes = std::vector<std::uint8_t>;

// A program may make, destroy and make again a group of one name, and an attempt may fail on some ranks before others
// have begun it. So rounds are numbered: rank 0 begins a new one each time, and says so in the store if it has failed.
// Another rank takes part in the first round that it has not been in and that has not failed; of the last one it takes
// the error. A number in the store outlives its process.
const Bytes given_up{0};

std::string key_of(std::int64_t round, const char* what) { return c10::str("tutti/", round, "/", what); }

std::string next_round_of(int rank) { return c10::str("tutti/next/", rank); }

/// The error of rank 0 in place of an id: never as long as one.
Bytes instead_of_id(std::string error) {
  if (error.size() == sizeof(tutti_unique_id)) error += '.';
  return {error.begin(), error.end()};
}

/// Rank 0 opens a place to meet and publishes its id; if it cannot, its error, so that the others do not wait.
tutti_unique_id publish(c10d::Store& store, const std::string& key) {
  tutti_unique_id id{};
  if (const tutti_result result = tutti_unique_id_create(&id); result != TUTTI_OK) {
    store.set(key, instead_of_id(tutti_last_error()));
    fail(result);
  }
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(id.bytes);
  store.set(key, Bytes(bytes, bytes + sizeof id.bytes));
  return id;
}

/// What rank 0 says of a round, once it does.
Bytes await(c10d::Store& store, const std::string& key, int rank, std::chrono::milliseconds timeout) {
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
  return store.get(key);
}

/// Another rank finds its round.
tutti_unique_id fetch(c10d::Store& store, std::int64_t& round, int rank, std::chrono::milliseconds timeout) {
  round = store.add(next_round_of(rank), 0);
  Bytes bytes;
  do {
    bytes = await(store, key_of(round, "id"), rank, timeout);
    round = store.add(next_round_of(rank), 1);
  } while (bytes == given_up || (bytes.size() != sizeof(tutti_unique_id) && store.check({key_of(round, "id")})));
  --round;
  tutti_unique_id id{};
  if (bytes.size() != sizeof id.bytes)
    fail_with("tutti: rank 0 has failed before the ranks could meet: " + std::string(bytes.begin(), bytes.end()));
  std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
  return id;
}

/// The first rank that fails to connect tells the others why, who otherwise know only that it does not come.
[[noreturn]] void fail_together(c10d::Store& store, std::int64_t round, int rank, tutti_result result) {
  const std::string own = tutti_last_error();
  const std::string key = key_of(round, "failure");
  std::string first;
  try {
    // A wrong argument or variable is wrong in the next round, too, so ranks that come later need not wait for that.
    if (rank == 0) store.set(key_of(round, "id"), is_wrong_call(result) ? instead_of_id(own) : given_up);
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
  std::int64_t round = rank == 0 ? store.add(next_round_of(0), 1) - 1 : 0;
  const tutti_unique_id id = rank == 0 ? publish(store, key_of(round, "id")) : fetch(store, round, rank, timeout);
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
    fail_together(store, round, rank, result);
  return comm;
}

tutti_comm* sub_group(Communicator& parent, const std::vector<int>& ranks) {
  const Communicator::Use use{parent};
  tutti_comm* made = nullptr;
  check(tutti_comm_subgroup(use.get(), ranks.data(), ranks.size(), &made));
  return made;
}

}  // namespace tutti_torch
