#include "lib/startup/job_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>

namespace tutti::detail {
namespace {

constexpr std::size_t token_size = 16;
constexpr const char* token_key = "token";

std::string check_token(std::string token) {
  if (token.size() != token_size)
    throw Error{ErrorCode::rendezvous,
                fmt::format("the job's token in the store has {} bytes, not {}: another program or version shares this "
                            "store under the same job name",
                            token.size(), token_size)};
  return token;
}

std::string publish_token(Store& store) {
  std::string token(token_size, '\0');
  if (!fill_with_random(std::as_writable_bytes(std::span{token})))
    throw Error{ErrorCode::system,
                fmt::format("cannot get random bytes for the job's token: {}", std::strerror(errno))};
  return check_token(store.compare_set(token_key, "", token));
}

bool has_token(Store& store) {
  const std::string name{token_key};
  try {
    return store.check({&name, 1});
  } catch (const Error&) {
    return true;  // the store itself is gone, as the error of the wait says
  }
}

std::string read_token(Store& store, const JoinOptions& options) {
  const auto begin = Clock::now();
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(options.deadline - begin);
  const std::string name{token_key};
  try {
    store.wait_for({&name, 1}, std::max(left, std::chrono::milliseconds{1}));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::rendezvous || Clock::now() < options.deadline || has_token(store)) throw;
    throw Error{error.code(),
                fmt::format("rank {} of {} waited {:.1f} s for rank 0, which has not come to the store. It may not "
                            "have started, may have failed (see its output), or meets elsewhere. ({})",
                            options.rank, options.size, std::chrono::duration<double>(Clock::now() - begin).count(),
                            error.what()),
                0};
  }
  return check_token(store.get(name));
}

}  // namespace

Secret agree_on_key(const JoinOptions& options, Store& store) {
  const std::string token = options.rank == 0 ? publish_token(store) : read_token(store, options);
  return options.secret.derive("tutti job", std::as_bytes(std::span{token}));
}

std::string fingerprint(const Secret& key) {
  const Secret derived = key.derive("fingerprint");
  std::string text;
  for (const std::byte byte : derived.bytes().first(8)) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

void check_fingerprints(const std::vector<std::string>& fingerprints, int rank) {
  const std::string& mine = fingerprints[static_cast<std::size_t>(rank)];
  for (std::size_t other = 0; other < fingerprints.size(); ++other)
    if (fingerprints[other] != mine)
      throw Error{ErrorCode::rendezvous,
                  fmt::format("rank {} was started with another secret than rank {}: give all ranks the same "
                              "TUTTI_SECRET or TUTTI_SECRET_FILE, or none of them any",
                              other, rank),
                  static_cast<int>(other)};
}

void warn_of_open_key(const JoinOptions& options, std::size_t hosts, const Log& log) {
  if (options.rank != 0 || !options.foreign_store || !options.secret.empty() || hosts < 2) return;
  log.warn(fmt::format(
      "whoever can reach this launcher's store can join the job, which runs on {} hosts; give all ranks the same "
      "TUTTI_SECRET to keep others out",
      hosts));
}

}  // namespace tutti::detail
