// How ranks meet, from the struct of C.

#include "lib/c/connect_options.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "lib/base/environment.h"
#include "lib/c/arguments.h"
#include "lib/c/guarded.h"

namespace tutti::c_api {
namespace {

constexpr std::size_t first_options_size = 120;
static_assert(first_options_size == sizeof(tutti_connect_options));

void require_one_place(const tutti_connect_options& options) {
  const int places = (options.rendezvous ? 1 : 0) + (options.id ? 1 : 0) + (options.all_gather ? 1 : 0);
  if (places > 1) throw Wrong{"rendezvous, id and all_gather are ways to meet: give one of them"};
  if (options.rank < 0 || options.ranks < 0 || (options.ranks > 0 && options.rank >= options.ranks))
    throw Wrong{fmt::format("rank {} is not one of {} ranks", options.rank, options.ranks)};
  if (options.ranks == 0 && options.rank > 0) throw Wrong{"rank is given, but ranks, their number, is not"};
  if ((options.id || options.all_gather) && options.ranks == 0)
    throw Wrong{"id and all_gather need rank and ranks, since no launcher gives them"};
}

}  // namespace

tutti_connect_options given_options(const tutti_connect_options* options) {
  return options_of(options, "tutti_connect_options", first_options_size);
}

Store::Milliseconds setup_timeout(const tutti_connect_options& options) {
  if (options.setup_timeout_ms > 0) return Store::Milliseconds{options.setup_timeout_ms};
  return environment::seconds("TUTTI_TIMEOUT").value_or(std::chrono::minutes{5});
}

ConnectOptions cpp_options(const tutti_connect_options& from) {
  require_one_place(from);
  ConnectOptions to;
  if (from.ranks > 0) to.rank = from.rank, to.size = from.ranks;
  to.rendezvous = text_of(from.rendezvous);
  to.job = text_of(from.job);
  to.secret_file = text_of(from.secret_file);
  to.transport = text_of(from.transport);
  to.tuning_file = text_of(from.tuning_file);
  to.plan_file = text_of(from.plan_file);
  to.setup_timeout = milliseconds_of(from.setup_timeout_ms);
  to.timeout = milliseconds_of(from.timeout_ms);
  to.lost_after = milliseconds_of(from.lost_after_ms);
  to.deterministic = from.deterministic != 0;
  to.tls = from.tls != 0;
  return to;
}

}  // namespace tutti::c_api
