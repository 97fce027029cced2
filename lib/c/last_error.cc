// The last error of each thread.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include "lib/c/arguments.h"
#include "lib/c/guarded.h"
#include "tutti/error.h"

namespace tutti::c_api {
namespace {

constexpr std::size_t first_details_size = 112;
static_assert(first_details_size == sizeof(tutti_error_details));

struct LastError {
  tutti_result result = TUTTI_OK;
  std::optional<Error> error;  // nothing: there was no memory for its words, or no failure

  const char* text() const { return error ? error->what() : result == TUTTI_OK ? "" : "out of memory"; }
};

LastError& last() {
  static thread_local LastError last;
  return last;
}

/// The tutti_result of the exception that is being handled.
tutti_result translate(LastError& to, const char* function) {
  try {
    throw;
  } catch (const Error& error) {
    to.error = error;  // copies do not throw
    return result_of(error.code());
  } catch (const Wrong& wrong) {
    to.error = Error{ErrorCode::invalid_argument, fmt::format("{}: {}", function, wrong.why)};
    return TUTTI_INVALID_ARGUMENT;
  } catch (const std::bad_alloc&) {
    to.error = Error{ErrorCode::system, fmt::format("{}: out of memory", function)};
    return TUTTI_SYSTEM;
  } catch (const std::exception& foreign) {
    to.error = Error{ErrorCode::system, fmt::format("{}: a fault of tutti's own: {}", function, foreign.what())};
  } catch (...) {
    to.error = Error{ErrorCode::system, fmt::format("{}: a fault of tutti's own, which says nothing", function)};
  }
  return TUTTI_INTERNAL;
}

}  // namespace

tutti_result keep_exception(const char* function) noexcept {
  LastError& to = last();
  to.error.reset();
  try {
    to.result = translate(to, function);
  } catch (...) {  // while it made the words
    to.error.reset();
    to.result = TUTTI_SYSTEM;
  }
  return to.result;
}

}  // namespace tutti::c_api

using namespace tutti::c_api;

extern "C" {

const char* tutti_last_error(void) { return last().text(); }

tutti_result tutti_last_error_details(tutti_error_details* details) {
  return guarded(__func__, [&] {
    const std::size_t size = required_size(given(details, "details").size, "tutti_error_details", first_details_size);
    const LastError& from = last();
    tutti_error_details all{};
    all.size = size;
    all.code = from.result;
    all.rank = -1;
    all.message = from.text();
    all.host = all.process = all.collective = all.algorithm = all.data_type = "";
    if (from.error) {
      const tutti::FailureDetails& known = from.error->details();
      all.rank = from.error->rank();
      all.operation = from.error->operation();
      all.host = known.host.c_str();
      all.process = known.process.c_str();
      all.collective = known.collective.c_str();
      all.algorithm = known.algorithm.c_str();
      all.data_type = known.data_type.c_str();
      all.count = known.count;
      all.steps_done = known.steps_done;
      all.steps = known.steps;
      all.bytes_received = known.bytes_received;
      all.reported = known.reported ? 1 : 0;
      all.in_rounds = known.in_rounds ? 1 : 0;
    }
    std::memcpy(details, &all, std::min(size, sizeof all));
  });
}

const char* tutti_result_name(tutti_result result) {
  if (result == TUTTI_OK) return "ok";
  if (result == TUTTI_INTERNAL) return "internal";
  if (result < 0 || result > tutti::error_code_count) return "unknown";
  return tutti::name_of(static_cast<tutti::ErrorCode>(result - 1));
}

}  // extern "C"
