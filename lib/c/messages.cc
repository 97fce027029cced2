// Messages of the C interface.

#include <fmt/format.h>

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

/// How a message is to be done.
class MessageManner {
 public:
  MessageManner(std::int32_t tag, const tutti_call_options* options) : given_(call_options_of(options)), tag_(tag) {
    if (given_.persistent) throw Wrong{"persistent is given, and messages cannot be prepared"};
    if (given_.algorithm || given_.op) throw Wrong{"algorithm or op is given, and messages have none"};
  }

  MessageOptions options() const {
    return {.tag = tag_, .timeout = milliseconds_of(given_.timeout_ms), .stream = given_.stream};
  }
  detail::Memory memory() const { return given_.on_device ? detail::Memory::device : detail::Memory::host; }

  bool starts() const { return given_.work != nullptr; }
  template <class Start>
  void keep(const Start& start) const {
    give_handle(*given_.work, start);
  }

 private:
  const tutti_call_options given_;
  const std::int32_t tag_;
};

void set(tutti_status* status, const MessageStatus& got) {
  if (status) *status = status_of(got);
}

}  // namespace
}  // namespace tutti::c_api

using tutti::detail::Internals;
using namespace tutti::c_api;

extern "C" {

tutti_result tutti_send(tutti_comm* comm, const void* data, uint64_t count, tutti_type type, int32_t to, int32_t tag,
                        const tutti_call_options* options) {
  return guarded(__func__, [&] {
    const MessageManner how{tag, options};
    auto& by = given(comm, "comm").comm;
    const auto what = sent(data, count, type);
    if (!how.starts()) return Internals::send(by, what, to, how.options(), how.memory());
    how.keep([&] { return Internals::start_send(by, what, to, how.options(), how.memory()); });
  });
}

tutti_result tutti_recv(tutti_comm* comm, void* data, uint64_t count, tutti_type type, int32_t from, int32_t tag,
                        const tutti_call_options* options, tutti_status* status) {
  return guarded(__func__, [&] {
    const MessageManner how{tag, options};
    auto& by = given(comm, "comm").comm;
    const auto where = received(data, count, type);
    if (!how.starts()) return set(status, Internals::receive(by, where, from, how.options(), how.memory()));
    if (status) throw Wrong{"status and work are both given: tutti_work_status() tells when the message is there"};
    how.keep([&] { return Internals::start_receive(by, where, from, how.options(), how.memory()); });
  });
}

tutti_result tutti_sendrecv(tutti_comm* comm, const void* out, uint64_t out_count, tutti_type out_type, int32_t to,
                            void* in, uint64_t in_count, tutti_type in_type, int32_t from, int32_t tag,
                            const tutti_call_options* options, tutti_status* status) {
  return guarded(__func__, [&] {
    const MessageManner how{tag, options};
    if (how.starts()) throw Wrong{"work is given: start a receive and a send instead"};
    set(status, Internals::send_and_receive(given(comm, "comm").comm, sent(out, out_count, out_type, "out"), to,
                                            received(in, in_count, in_type, "in"), from, how.options(), how.memory()));
  });
}

tutti_result tutti_probe(tutti_comm* comm, int32_t from, int32_t tag, int64_t timeout_ms, tutti_status* status) {
  return guarded(__func__, [&] {
    set(status, given(comm, "comm").comm.probe(from, {.tag = tag, .timeout = milliseconds_of(timeout_ms)}));
  });
}

tutti_result tutti_iprobe(tutti_comm* comm, int32_t from, int32_t tag, int32_t* found, tutti_status* status) {
  return guarded(__func__, [&] {
    given(found, "found") = 0;
    const auto seen = given(comm, "comm").comm.iprobe(from, {.tag = tag});
    if (!seen) return;
    *found = 1;
    set(status, *seen);
  });
}

}  // extern "C"
