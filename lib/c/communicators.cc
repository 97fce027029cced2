// How a communicator of the C interface is made, asked and ended.

#include <fmt/format.h>

#include <memory>
#include <span>
#include <utility>

#include "lib/api/communicator_state.h"
#include "lib/c/arguments.h"
#include "lib/c/connect_options.h"
#include "lib/c/guarded.h"
#include "lib/c/handles.h"
#include "lib/c/unique_id.h"
#include "lib/security/job_secret.h"
#include "tutti/error.h"

namespace tutti::c_api {
namespace {

/// What this rank has to know before it can meet others by an id.
struct Preparation {
  Store::Milliseconds timeout{0};
  std::shared_ptr<TlsProxies> tls_proxies = {};
};

Preparation prepare(const tutti_connect_options& from, const ConnectOptions& to) {
  return {setup_timeout(from), job_tls_proxies(job_secret(to.secret_file), to.tls)};
}

/// Those that come to the id learn there why this rank does not take part. What it says is no secret, and the id has
/// one that lets it in.
[[noreturn]] void decline(const tutti_unique_id& id, ConnectOptions options, const Error& reason) {
  constexpr Store::Milliseconds patience{5000};
  try {
    options.store = meet_at(id, options, patience, nullptr);
  } catch (...) {  // Wrong, too
    // There is nobody to tell, or they wait until their own deadline.
  }
  detail::do_not_join(options, reason);
}

Communicator connect(const tutti_connect_options& from) {
  ConnectOptions to = cpp_options(from);
  if (!from.id && !from.all_gather) return tutti::connect(to);
  // First of all, since the other ranks are in all_gather, or will be.
  const tutti_unique_id id =
      from.id ? *from.id : share_unique_id(from.rank, from.ranks, from.all_gather, from.all_gather_context);
  Preparation own;
  try {
    own = prepare(from, to);
  } catch (const Error& error) {
    decline(id, to, error);
  }
  to.store = meet_at(id, to, own.timeout, own.tls_proxies);
  return detail::join(to, nullptr, own.tls_proxies);
}

/// Makes a communicator from one that exists. `made` stays null if that is an empty one.
template <class Make>
void derive(tutti_comm* comm, tutti_comm** made, const Make& make) {
  given(made, "made") = nullptr;
  Communicator derived = make(given(comm, "comm").comm);
  if (derived) *made = new tutti_comm{std::move(derived)};
}

}  // namespace
}  // namespace tutti::c_api

using namespace tutti::c_api;
using tutti::Communicator;

extern "C" {

tutti_result tutti_unique_id_create(tutti_unique_id* id) {
  return guarded(__func__, [&] { give(id, "id", create_unique_id); });
}

tutti_result tutti_connect(const tutti_connect_options* options, tutti_comm** comm) {
  return guarded(__func__, [&] {
    given(comm, "comm") = nullptr;
    *comm = new tutti_comm{connect(given_options(options))};
  });
}

tutti_result tutti_comm_free(tutti_comm* comm) {
  return guarded(__func__, [&] { delete comm; });
}

tutti_result tutti_comm_rank(const tutti_comm* comm, int32_t* rank) {
  return guarded(__func__, [&] { given(rank, "rank") = given(comm, "comm").comm.rank(); });
}

tutti_result tutti_comm_size(const tutti_comm* comm, int32_t* size) {
  return guarded(__func__, [&] { given(size, "size") = given(comm, "comm").comm.size(); });
}

tutti_result tutti_comm_local_rank(const tutti_comm* comm, int32_t* rank) {
  return guarded(__func__, [&] { given(rank, "rank") = given(comm, "comm").comm.local_rank(); });
}

tutti_result tutti_comm_local_size(const tutti_comm* comm, int32_t* size) {
  return guarded(__func__, [&] { given(size, "size") = given(comm, "comm").comm.local_size(); });
}

tutti_result tutti_comm_subgroup(tutti_comm* comm, const int32_t* ranks, uint64_t count, tutti_comm** made) {
  return guarded(__func__, [&] {
    derive(comm, made, [&](Communicator& own) {
      if (count > static_cast<std::uint64_t>(own.size()))
        throw Wrong{fmt::format("{} ranks are more than the {} of this communicator", count, own.size())};
      return own.subgroup(std::span{count == 0 ? ranks : &given(ranks, "ranks"), count});
    });
  });
}

tutti_result tutti_comm_split(tutti_comm* comm, int32_t colour, int32_t key, tutti_comm** made) {
  return guarded(__func__, [&] { derive(comm, made, [&](Communicator& own) { return own.split(colour, key); }); });
}

tutti_result tutti_comm_split_by_host(tutti_comm* comm, tutti_comm** made) {
  return guarded(__func__, [&] { derive(comm, made, [](Communicator& own) { return own.split_by_host(); }); });
}

tutti_result tutti_comm_shrink(tutti_comm* comm, int64_t timeout_ms, tutti_comm** made) {
  return guarded(__func__, [&] {
    derive(comm, made, [&](Communicator& own) {
      if (timeout_ms < 0) throw Wrong{fmt::format("a timeout of {} ms is negative", timeout_ms)};
      return own.shrink(milliseconds_of(timeout_ms));
    });
  });
}

tutti_result tutti_comm_abort(tutti_comm* comm, const char* reason) {
  return guarded(__func__, [&] { given(comm, "comm").comm.abort(reason ? reason : "no reason was given"); });
}

tutti_result tutti_chosen_algorithm(const tutti_comm* comm, tutti_collective collective, uint64_t bytes, char* text,
                                    size_t size) {
  return guarded(__func__, [&] {
    write_text(given(comm, "comm").comm.chosen_algorithm(collective_of(collective), bytes), text, size);
  });
}

tutti_result tutti_transport_to(const tutti_comm* comm, int32_t peer, char* text, size_t size) {
  return guarded(__func__, [&] { write_text(given(comm, "comm").comm.transport_to(peer), text, size); });
}

}  // extern "C"
