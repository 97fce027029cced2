#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tutti/error.h"

namespace tutti {

/// One variable that tutti reads. The table is complete: reading, docs/environment.md, `tutti doctor --env` and the
/// check of names come from it.
struct Variable {
  enum class Kind : std::uint8_t {
    text,        ///< read by the part that it is for
    flag,        ///< 0 or 1
    number,      ///< whole, from `least` to `most`, or one of `words`
    seconds,     ///< with a fraction, from `least` to `most` milliseconds
    word,        ///< one of `words`, in capitals or not
    descriptor,  ///< a number; one that is not inherited counts as not set, since a program may pass it on to others
  };
  std::string_view name;  ///< "TUTTI_TIMEOUT"
  Kind kind = Kind::text;
  std::string_view values = {};    ///< of a text its grammar, for people; else what is counted: "seconds", "bytes"
  std::string_view fallback = {};  ///< what holds without it
  std::string_view meaning = {};
  std::span<const std::string_view> words = {};
  std::uint64_t least = 0;
  std::uint64_t most = ~std::uint64_t{0};
  bool is_secret = false;  ///< its value is shown to nobody
};
std::span<const Variable> variables();
/// "auto | plain | streaming", "seconds from 1, e.g. 30 or 0.5"
std::string accepted_by(const Variable& variable);

/// Throws Error{invalid_argument} for the first TUTTI_ name in `environ` that is not in the table, offering the
/// nearest. Variables that Kubernetes sets for a service called "tutti" or "tutti-..." are accepted (service_links.h).
void check_environment(const char* const* environ);

/// Value of a variable of this process, if set and not empty.
std::optional<std::string> variable(std::string_view name);

/// Values by the types of the table: nothing if the variable is not set. Throw Error{invalid_argument} for a value that
/// it does not take: `TUTTI_SPIN is "much": not a number, accepted: tries from 0 | auto.`
namespace environment {

bool is_on(std::string_view name);
/// Also nothing for one of its words.
std::optional<std::uint64_t> number(std::string_view name);
std::optional<std::chrono::milliseconds> seconds(std::string_view name);
/// The index of its value among the words of the table.
std::optional<std::size_t> word(std::string_view name);
/// -1: none.
int descriptor(std::string_view name);

/// The same for values from elsewhere.
std::uint64_t number_in(std::string_view name, const std::string& value);
std::size_t word_in(std::string_view name, const std::string& value);

/// The error for a wrong value of an option, in the usual words. The option takes what the variable `name` takes, and
/// users know it as `called`. `why` is "not a file", `remedy` a sentence, for example of did_you_mean(), or empty.
Error wrong_as(std::string_view called, std::string_view name, std::string_view value, std::string_view why,
               std::string_view remedy);
/// The same for a value of the variable.
inline Error wrong(std::string_view name, std::string_view value, std::string_view why, std::string_view remedy = {}) {
  return wrong_as(name, name, value, why, remedy);
}

}  // namespace environment
}  // namespace tutti
