#include "lib/api/buffer_checks.h"

#include <fmt/format.h>

#include <limits>

namespace tutti::detail {

std::string impossible(const char* name, std::size_t number) {
  return fmt::format("a {} of {} elements is more than any memory holds", name, number);
}

std::string impossible(std::size_t count, std::size_t unit) {
  const bool stands_for_more = count == std::numeric_limits<std::size_t>::max();  // of times()
  return fmt::format("a count of {} elements{} is more than any memory holds", count / unit,
                     stands_for_more ? " or more" : "");
}

}  // namespace tutti::detail
