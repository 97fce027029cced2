#include "rendezvous/store_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace tutti::rendezvous {

Error waited_in_vain(std::string_view where, std::span<const std::string> keys, std::chrono::milliseconds timeout) {
  const bool one = keys.size() == 1;
  return {ErrorCode::rendezvous, fmt::format("{}: waited {} for the key{} {}, {} not come. The process that sets {} "
                                             "may not have started, may have failed, "
                                             "or uses another store or job name.",
                                             where, in_seconds(timeout), one ? "" : "s", list_of(keys),
                                             one ? "which did" : "some of which did", one ? "it" : "them")};
}

Error not_addable(std::string_view where, std::string_view key) {
  return {ErrorCode::invalid_argument,
          fmt::format("{}: cannot add to \"{}\": its value is not a decimal number, or the sum exceeds 64 bits.", where,
                      key)};
}

std::string list_of(std::span<const std::string> names) {
  constexpr std::size_t most = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    list += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", names[i]);
  if (names.size() > most) list += fmt::format(" and {} more", names.size() - most);
  return list;
}

std::string in_seconds(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000.0);
}

}  // namespace tutti::rendezvous
