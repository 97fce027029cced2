#include "rendezvous/store_errors.h"

#include <fmt/format.h>
#include <unistd.h>

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

Error too_long_list(std::string_view where, std::int64_t bytes) {
  return {ErrorCode::rendezvous,
          fmt::format("{}, list_keys: the names of all keys take {} bytes, more than the server sends in an answer. "
                      "Erase the keys that nobody needs any more, or keep the names that you look for in the value "
                      "of one key.",
                      where, bytes)};
}

void require_own_process(const ForkMark& mark, std::string_view where) {
  if (mark.is_here()) [[likely]]
    return;
  throw Error{ErrorCode::invalid_argument,
              fmt::format("{}: this object belongs to the process that opened it, {}; this one, {}, is a child of "
                          "fork(), whose requests would mix with those of its parent. Open the store here, too.",
                          where, mark.process(), ::getpid())};
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
