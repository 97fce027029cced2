// Each rank publishes a value under its rank. Rank 0 gathers them and publishes them together for the others, so the
// server looks up a few keys for each rank instead of all keys for each.
//
// Keys, under the store's prefix:
//   <name>/<rank>        the values of an exchange
//   <name>/all           all of them, each preceded by its length; empty if that is more than a store takes; or the
//                        reason for which rank 0 has given up
//   <name>/read/<rank>   that rank has read it; rank 0 waits for this, as its server may end with it

#include "rendezvous/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "lib/base/little_endian.h"
#include "rendezvous/limits.h"
#include "rendezvous/packed.h"
#include "rendezvous/patience.h"
#include "rendezvous/store_errors.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The first few of the keys that do not exist. The keys are searched by bisection, so that a server with many waiting
/// ranks is not asked about every key by each of them.
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

/// Calls `wait`, which waits for `awaited`. If it fails, the values of some ranks are missing, or rank 0 has not passed
/// them on.
template <class Wait>
auto naming_absent(Store& store, std::string_view name, int rank, std::span<const std::string> awaited,
                   std::span<const std::string> keys, const std::function<bool(int)>& has_left, const Wait& wait) {
  const auto begin = Clock::now();
  try {
    return wait();
  } catch (const Error& error) {
    constexpr std::size_t shown = 8;
    const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
    std::vector<int> who;
    try {
      who = missing(store, keys, shown);
      if (who.empty() && rank != 0 && !store.check(awaited)) who.push_back(0);
    } catch (const Error&) {
      // The store itself is gone; the error of the wait says so.
    }
    if (who.empty()) throw;
    if (has_left && !std::ranges::all_of(who, has_left)) std::erase_if(who, has_left);
    const Error explained = absent(name, rank, static_cast<int>(keys.size()), who, shown, waited, error.what());
    if (error.code() == ErrorCode::aborted) throw Error{error.code(), explained.what(), explained.rank()};
    throw explained;
  }
}

/// The values of all ranks. A rank that goes takes its value back, and a server may end a wait that has passed that
/// value before. Then the next process with that rank is awaited.
std::vector<std::string> gather(Store& store, std::span<const std::string> keys, Clock::time_point deadline) {
  for (;;) {
    store.wait_for(keys, time_left(deadline));
    if (store.check(keys)) return store.multi_get(keys);
  }
}

/// Empty if that is more than a store takes.
std::string pack_if_small(const std::vector<std::string>& values) {
  std::string all = pack(values);
  return all.size() > max_value_bytes ? "" : all;
}

/// Values never begin like this: the length would be larger than any value.
constexpr std::string_view given_up{"\xff\xff\xff\xff"};

std::string explanation(const Error& reason) {
  std::array<std::byte, sizeof(std::uint32_t)> culprit;
  put(culprit.data(), static_cast<std::uint32_t>(reason.rank()));
  return std::string{given_up}
      .append(reinterpret_cast<const char*>(culprit.data()), culprit.size())
      .append(reason.what());
}

/// The error that a rank throws after reading it.
Error explained(std::string_view all, std::string_view name, int rank, int ranks) {
  all.remove_prefix(given_up.size());
  int culprit = 0;
  if (all.size() >= sizeof(std::uint32_t)) {
    const std::byte* at = reinterpret_cast<const std::byte*>(all.data());
    culprit = static_cast<int>(get<std::uint32_t>(at));
    all.remove_prefix(sizeof(std::uint32_t));
  }
  return {ErrorCode::rendezvous,
          fmt::format("rendezvous \"{}\" on rank {} of {}: rank 0 has given up: {}", name, rank, ranks, all), culprit};
}

/// Tells the ranks that are there, which would otherwise only see the server end. Their number is unknown.
void explain(Store& store, const std::string& all, const std::vector<std::string>& readers, const Error& reason) {
  try {
    store.set(all, explanation(reason));
    if (!readers.empty()) store.wait_for(readers, milliseconds{500});
  } catch (const Error&) {
    // Some ranks never came, or the store itself is gone.
  }
}

std::vector<std::string> read_keys(std::string_view name, int ranks) {
  std::vector<std::string> keys;
  for (int i = 1; i < ranks; ++i) keys.push_back(fmt::format("{}/read/{}", name, i));
  return keys;
}

}  // namespace

std::vector<std::string> exchange(Store& store, std::string_view name, int rank, int ranks, std::string_view mine,
                                  Clock::time_point deadline, const std::function<bool(int)>& has_left) {
  std::vector<std::string> keys;
  for (int i = 0; i < ranks; ++i) keys.push_back(fmt::format("{}/{}", name, i));
  store.set(keys[static_cast<std::size_t>(rank)], mine);
  const std::string all = fmt::format("{}/all", name);
  const std::vector<std::string> readers = read_keys(name, ranks);
  const auto gather_all = [&] {
    return naming_absent(store, name, rank, keys, keys, has_left, [&] { return gather(store, keys, deadline); });
  };
  std::optional<std::vector<std::string>> values;
  if (rank == 0) {
    try {
      values = gather_all();
    } catch (const Error& error) {
      explain(store, all, readers, error);
      throw;
    }
    store.set(all, pack_if_small(*values));
  } else {
    naming_absent(store, name, rank, {&all, 1}, keys, has_left, [&] {
      store.wait_for({&all, 1}, time_left(deadline));
    });
    const std::string told = store.get(all);
    values = unpack(told, keys.size());
    if (!values && !told.starts_with(given_up)) values = gather_all();
    store.set(readers[static_cast<std::size_t>(rank) - 1], "");
    if (!values) throw explained(told, name, rank, ranks);
    return std::move(*values);
  }
  try {
    if (!readers.empty()) store.wait_for(readers, std::min(time_left(deadline), milliseconds{5000}));
  } catch (const Error&) {
    // A rank that has not read by now has failed, or will get an error of its own. This rank has all values.
  }
  return std::move(*values);
}

void decline(Store& store, std::string_view name, int rank, int ranks, std::string_view mine, const Error& reason) {
  store.set(fmt::format("{}/{}", name, rank), mine);
  if (rank == 0)
    explain(store, fmt::format("{}/all", name), read_keys(name, ranks), reason);
  else
    store.set(fmt::format("{}/read/{}", name, rank), "");
}

}  // namespace tutti::rendezvous
