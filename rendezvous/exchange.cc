// Everybody publishes one value under his rank; rank 0 gathers them, and publishes them together for the others, so
// that the server looks up a few keys for each rank, and not all for each.
//
// Keys, under the store's prefix:
//   size             what the first to come was told
//   place/<rank>     who has that place: compare_set lets one process in and tells a second one who it was
//   <name>/<rank>    the values of an exchange
//   <name>/all       all of them, each behind its length; empty where that is more than a store takes
//   <name>/read/<rank>   he has read them; rank 0 waits, as its server may end with it

#include "rendezvous/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <span>

#include "lib/base/little_endian.h"
#include "rendezvous/complaints.h"
#include "rendezvous/limits.h"
#include "rendezvous/process.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// At least a moment: what has come already is found even if the deadline is just over.
milliseconds time_left(Clock::time_point deadline) {
  return std::max(std::chrono::ceil<milliseconds>(deadline - Clock::now()), milliseconds{1});
}

/// The first few of the keys that do not exist. Keys are looked at in halves, so that a server with many ranks waiting
/// in vain is not asked for every single one by each of them.
std::vector<int> missing(Store& store, std::span<const std::string> keys, std::size_t at_most) {
  std::vector<int> result;
  std::size_t first = 0;
  while (first < keys.size() && result.size() < at_most && !store.check(keys.subspan(first))) {
    std::size_t low = first;  // all before it exist
    std::size_t high = keys.size();
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      if (store.check(keys.subspan(low, middle - low)))
        low = middle;
      else
        high = middle;
    }
    result.push_back(static_cast<int>(low));
    first = low + 1;
  }
  return result;
}

Error absent(std::string_view name, int rank, int ranks, const std::vector<int>& who, std::size_t shown,
             milliseconds waited, const char* reason) {
  std::string list;
  for (std::size_t i = 0; i < who.size(); ++i) list += fmt::format("{}{}", i == 0 ? "" : ", ", who[i]);
  if (who.size() == shown) list += ", perhaps more";
  return {
      ErrorCode::rendezvous,
      fmt::format("rendezvous \"{}\" on rank {} of {}: waited {} for rank{} {}. They may not have started, may have "
                  "failed (see their output), or meet elsewhere. ({})",
                  name, rank, ranks, in_seconds(waited), who.size() == 1 ? "" : "s", list, reason),
      who.front()};
}

/// Waits for `awaited`; in vain means that the keys of some ranks are missing, or that rank 0 has not passed them on.
void await_all(Store& store, std::string_view name, int rank, std::span<const std::string> awaited,
               std::span<const std::string> keys, Clock::time_point deadline) {
  const auto begin = Clock::now();
  try {
    store.wait_for(awaited, time_left(deadline));
  } catch (const Error& error) {
    constexpr std::size_t shown = 8;
    const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
    std::vector<int> who;
    try {
      who = missing(store, keys, shown);
      if (who.empty() && rank != 0 && !store.check(awaited)) who.push_back(0);
    } catch (const Error&) {
      // The store itself is gone; the first error says so.
    }
    if (who.empty()) throw;
    throw absent(name, rank, static_cast<int>(keys.size()), who, shown, waited, error.what());
  }
}

std::string pack(const std::vector<std::string>& values) {
  std::string all;
  for (const std::string& value : values) {
    std::array<std::byte, sizeof(std::uint32_t)> length;
    put(length.data(), static_cast<std::uint32_t>(value.size()));
    all.append(reinterpret_cast<const char*>(length.data()), length.size()).append(value);
  }
  return all.size() > max_value_bytes ? "" : all;
}

/// Nothing if these are not `count` values.
std::optional<std::vector<std::string>> unpack(std::string_view all, std::size_t count) {
  std::vector<std::string> values;
  while (all.size() >= sizeof(std::uint32_t)) {
    const std::byte* at = reinterpret_cast<const std::byte*>(all.data());
    const std::size_t length = get<std::uint32_t>(at);
    all.remove_prefix(sizeof(std::uint32_t));
    if (length > all.size()) return std::nullopt;
    values.emplace_back(all.substr(0, length));
    all.remove_prefix(length);
  }
  if (!all.empty() || values.size() != count) return std::nullopt;
  return values;
}

}  // namespace

void join(Store& store, int rank, int size, Clock::time_point deadline) {
  if (rank < 0 || rank >= size)
    throw Error{ErrorCode::invalid_argument, fmt::format("rank {} is not one of {} ranks.", rank, size), rank};
  const std::string told = store.compare_set("size", "", std::to_string(size));
  if (told != std::to_string(size))
    throw Error{
        ErrorCode::rendezvous,
        fmt::format("rank {} was told that there are {} ranks, but another was told {}: the processes were started "
                    "with different sizes, or two jobs meet in one store (give each its own TUTTI_JOB).",
                    rank, size, told),
        rank};
  // Several ranks may be threads of one process, hence the number.
  static std::atomic<unsigned> counter{0};
  const std::string me = fmt::format("{} ({}.{})", describe(this_process()), this_process().start, ++counter);
  const std::string holder = store.compare_set(fmt::format("place/{}", rank), "", me);
  if (holder != me)
    throw Error{
        ErrorCode::rendezvous,
        fmt::format("rank {} is already taken by {}: two processes were started with the same rank, or the store "
                    "holds the keys of an earlier run (restart it, or give each run its own TUTTI_JOB).",
                    rank, holder.substr(0, holder.find(" ("))),
        rank};
  if (Clock::now() > deadline)
    throw Error{ErrorCode::rendezvous, fmt::format("rank {} reached the store only after its deadline.", rank), rank};
}

std::vector<std::string> exchange(Store& store, std::string_view name, int rank, int ranks, std::string_view mine,
                                  Clock::time_point deadline) {
  std::vector<std::string> keys;
  for (int i = 0; i < ranks; ++i) keys.push_back(fmt::format("{}/{}", name, i));
  store.set(keys[static_cast<std::size_t>(rank)], mine);
  const std::string all = fmt::format("{}/all", name);
  std::optional<std::vector<std::string>> values;
  if (rank == 0) {
    await_all(store, name, rank, keys, keys, deadline);
    values = store.multi_get(keys);
    store.set(all, pack(*values));
  } else {
    await_all(store, name, rank, {&all, 1}, keys, deadline);
    values = unpack(store.get(all), keys.size());
    if (!values) values = store.multi_get(keys);
  }

  const auto read = [name](int reader) { return fmt::format("{}/read/{}", name, reader); };
  if (rank != 0) {
    store.set(read(rank), "");
    return std::move(*values);
  }
  std::vector<std::string> readers;
  for (int i = 1; i < ranks; ++i) readers.push_back(read(i));
  try {
    if (!readers.empty()) store.wait_for(readers, std::min(time_left(deadline), milliseconds{5000}));
  } catch (const Error&) {
    // Whoever has not read by now has failed, or will hear of it when he asks; what this rank wanted it has.
  }
  return std::move(*values);
}

}  // namespace tutti::rendezvous
