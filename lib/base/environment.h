#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// One variable that tutti reads. The table is complete: documentation, `tutti doctor --env` and the check come from
/// it.
struct Variable {
  std::string_view name;      ///< "TUTTI_TIMEOUT"
  std::string_view values;    ///< grammar, for people: "seconds, e.g. 30 or 0.5"
  std::string_view fallback;  ///< what holds without it
  std::string_view meaning;
  bool is_secret = false;  ///< its value is shown to nobody
};
std::span<const Variable> variables();

/// Throws Error{invalid_argument} for the first TUTTI_ name in `environ` that is not in the table, offering the
/// nearest.
void check_environment(const char* const* environ);

/// Value of a variable of this process, if set and not empty.
std::optional<std::string> variable(std::string_view name);

}  // namespace tutti
