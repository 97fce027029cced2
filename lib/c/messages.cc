// Messages of the C interface.

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <optional>

#include "lib/base/internals.h"
#include "lib/c/arguments.h"
#include "lib/c/guarded.h"
#include "lib/c/handles.h"
#include "lib/c/status.h"
#include "tutti/request.h"

namespace tutti::c_api {
namespace {

void require(const void* data, std::size_t count, const char* name) {
  if (count > std::numeric_limits<std::size_t>::max() / 16)
    throw Wrong{fmt::format("a count of {} elements is more than any memory holds", count)};
  if (!data && count > 0) throw Wrong{fmt::format("{} is NULL, but has {} elements", name, count)};
}

detail::ConstBuffer sent(const void* data, std::size_t count, tutti_type type, const char* name = "data") {
  require(data, count, name);
  return {data, count, type_of(type)};
}

detail::Buffer received(void* data, std::size_t count, tutti_type type, const char* name = "data") {
  require(data, count, name);
  return {data, count, type_of(type)};
}

MessageOptions message_options(std::int32_t tag, std::int64_t timeout_ms) {
  return {.tag = tag, .timeout = milliseconds_of(timeout_ms)};
}

}  // namespace
}  // namespace tutti::c_api

using tutti::detail::Internals;
using namespace tutti::c_api;

extern "C" {

tutti_result tutti_send(tutti_comm* comm, const void* data, uint64_t count, tutti_type type, int32_t to, int32_t tag,
                        int64_t timeout_ms) {
  return guarded(__func__, [&] {
    Internals::send(given(comm, "comm").comm, sent(data, count, type), to, message_options(tag, timeout_ms));
  });
}

tutti_result tutti_recv(tutti_comm* comm, void* data, uint64_t count, tutti_type type, int32_t from, int32_t tag,
                        int64_t timeout_ms, tutti_status* status) {
  return guarded(__func__, [&] {
    const auto got = Internals::receive(given(comm, "comm").comm, received(data, count, type), from,
                                        message_options(tag, timeout_ms));
    if (status) *status = status_of(got);
  });
}

tutti_result tutti_isend(tutti_comm* comm, const void* data, uint64_t count, tutti_type type, int32_t to, int32_t tag,
                         int64_t timeout_ms, tutti_work** work) {
  return guarded(__func__, [&] {
    given(work, "work") = nullptr;
    auto handle = std::make_unique<tutti_work>();  // first: what has started must not get lost
    handle->work =
        Internals::start_send(given(comm, "comm").comm, sent(data, count, type), to, message_options(tag, timeout_ms));
    *work = handle.release();
  });
}

tutti_result tutti_irecv(tutti_comm* comm, void* data, uint64_t count, tutti_type type, int32_t from, int32_t tag,
                         int64_t timeout_ms, tutti_work** work) {
  return guarded(__func__, [&] {
    given(work, "work") = nullptr;
    auto handle = std::make_unique<tutti_work>();
    handle->work = Internals::start_receive(given(comm, "comm").comm, received(data, count, type), from,
                                            message_options(tag, timeout_ms));
    *work = handle.release();
  });
}

tutti_result tutti_sendrecv(tutti_comm* comm, const void* out, uint64_t out_count, tutti_type out_type, int32_t to,
                            void* in, uint64_t in_count, tutti_type in_type, int32_t from, int32_t tag,
                            int64_t timeout_ms, tutti_status* status) {
  return guarded(__func__, [&] {
    const auto got =
        Internals::send_and_receive(given(comm, "comm").comm, sent(out, out_count, out_type, "out"), to,
                                    received(in, in_count, in_type, "in"), from, message_options(tag, timeout_ms));
    if (status) *status = status_of(got);
  });
}

tutti_result tutti_probe(tutti_comm* comm, int32_t from, int32_t tag, int64_t timeout_ms, tutti_status* status) {
  return guarded(__func__, [&] {
    const auto found = given(comm, "comm").comm.probe(from, message_options(tag, timeout_ms));
    if (status) *status = status_of(found);
  });
}

tutti_result tutti_iprobe(tutti_comm* comm, int32_t from, int32_t tag, int32_t* found, tutti_status* status) {
  return guarded(__func__, [&] {
    given(found, "found") = 0;
    const auto seen = given(comm, "comm").comm.iprobe(from, message_options(tag, 0));
    if (!seen) return;
    *found = 1;
    if (status) *status = status_of(*seen);
  });
}

}  // extern "C"
