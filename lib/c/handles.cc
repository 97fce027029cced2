// Versions, the wait hook, ops, and operations that were started.

#include "lib/c/handles.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "lib/base/wait_hook.h"
#include "lib/c/arguments.h"
#include "lib/c/guarded.h"
#include "lib/c/status.h"
#include "tutti/version.h"

using namespace tutti::c_api;

namespace {

/// As many nanoseconds as there are in centuries at most.
std::chrono::nanoseconds limit_of(std::int64_t limit_ms) {
  constexpr std::chrono::nanoseconds longest = std::chrono::nanoseconds::max();
  constexpr std::int64_t most_ms = longest / std::chrono::milliseconds{1};
  return std::chrono::milliseconds{std::clamp<std::int64_t>(limit_ms, 0, most_ms)};
}

/// What has failed is over, too.
template <class Wait>
void tell_whether_done(std::int32_t* done, const Wait& wait) {
  given(done, "done") = 1;
  if (!wait()) *done = 0;
}

/// What the waits of C++ take. (Clang 14 cannot compile the views of libstdc++ 12.)
std::vector<tutti::Handle*> works_of(tutti_work* const* works, std::uint64_t count) {
  if (count > 0) given(works, "works");
  std::vector<tutti::Handle*> handles;
  for (tutti_work* const work : std::span{works, static_cast<std::size_t>(count)})
    handles.push_back(&given(work, "a work").work);
  return handles;
}

}  // namespace

extern "C" {

tutti_result tutti_set_wait_hook(tutti_wait_function function, void* context) {
  return guarded(__func__, [&] { tutti::set_wait_hook({function, context}); });
}

const char* tutti_version(void) { return TUTTI_VERSION; }
int32_t tutti_abi_version(void) { return 0; }

tutti_result tutti_op_create(tutti_type type, tutti_op_function function, void* context, tutti_op** op) {
  return guarded(__func__, [&] {
    given(op, "op") = nullptr;
    if (!function) refuse_null("function");
    const auto combine = [function, context](void* accumulated, const void* operand, std::size_t count) {
      function(accumulated, operand, count, context);
    };
    *op = new tutti_op{tutti::Op{type_of(type), combine}};
  });
}

tutti_result tutti_op_create_premul_sum(double factor, tutti_op** op) {
  return guarded(__func__, [&] { given(op, "op") = nullptr, *op = new tutti_op{tutti::premul_sum(factor)}; });
}

tutti_result tutti_op_free(tutti_op* op) {
  return guarded(__func__, [&] { delete op; });
}

tutti_result tutti_work_wait(tutti_work* work) {
  return guarded(__func__, [&] { given(work, "work").work.wait(); });
}

tutti_result tutti_work_wait_for(tutti_work* work, int64_t limit_ms, int32_t* done) {
  return guarded(__func__, [&] {
    tutti::Work& own = given(work, "work").work;
    tell_whether_done(done, [&] { return own.wait_for(limit_of(limit_ms)); });
  });
}

tutti_result tutti_work_wait_any(tutti_work* const* works, uint64_t count, uint64_t* index) {
  return guarded(__func__, [&] {
    std::uint64_t& found = given(index, "index");
    found = tutti::detail::wait_any(works_of(works, count));
  });
}

tutti_result tutti_work_wait_all(tutti_work* const* works, uint64_t count) {
  return guarded(__func__, [&] { tutti::detail::wait_all(works_of(works, count)); });
}

tutti_result tutti_work_wait_on(tutti_work* work, void* stream) {
  return guarded(__func__, [&] { given(work, "work").work.wait_on(stream); });
}

tutti_result tutti_work_test(tutti_work* work, int32_t* done) {
  return guarded(__func__, [&] {
    tutti::Work& own = given(work, "work").work;
    tell_whether_done(done, [&] {
      if (!own.done()) return false;
      own.wait();
      return true;
    });
  });
}

tutti_result tutti_work_status(const tutti_work* work, tutti_status* status) {
  return guarded(__func__, [&] { given(status, "status") = status_of(given(work, "work").work.status()); });
}

tutti_result tutti_work_then(tutti_work* work, tutti_done_function function, void* context) {
  return guarded(__func__, [&] {
    tutti::Work& own = given(work, "work").work;
    if (!function) refuse_null("function");
    own.then([function, context](const tutti::Error*) { function(context); });
  });
}

tutti_result tutti_work_free(tutti_work* work) {
  return guarded(__func__, [&] { delete work; });
}

tutti_result tutti_persistent_start(tutti_persistent* persistent) {
  return guarded(__func__, [&] { given(persistent, "persistent").call.start(); });
}

tutti_result tutti_persistent_wait(tutti_persistent* persistent) {
  return guarded(__func__, [&] { given(persistent, "persistent").call.wait(); });
}

tutti_result tutti_persistent_wait_for(tutti_persistent* persistent, int64_t limit_ms, int32_t* done) {
  return guarded(__func__, [&] {
    tutti::Persistent& own = given(persistent, "persistent").call;
    tell_whether_done(done, [&] { return own.wait_for(limit_of(limit_ms)); });
  });
}

tutti_result tutti_persistent_run(tutti_persistent* persistent) {
  return guarded(__func__, [&] { given(persistent, "persistent").call.run(); });
}

tutti_result tutti_persistent_free(tutti_persistent* persistent) {
  return guarded(__func__, [&] { delete persistent; });
}

}  // extern "C"
