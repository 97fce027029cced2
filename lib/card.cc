#include "lib/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "tutti/error.h"

namespace tutti::detail {

std::string Card::encode() const {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", host, process, quota, shm, tcp, domain, watch,
                     fingerprint, allowed, encrypted, flat_limit, traces);
}

Card Card::decode(const std::string& text, int rank) {
  std::array<std::string, 12> fields;
  std::size_t begin = 0;
  for (std::string& field : fields) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    field = text.substr(begin, end - begin);
    begin = std::min(end + 1, text.size());
  }
  const auto is_number = [](const std::string& field, auto& value) {
    const auto [stopped, failure] = std::from_chars(field.data(), field.data() + field.size(), value);
    return failure == std::errc{} && stopped == field.data() + field.size();
  };
  int quota = 0;
  std::size_t flat_limit = 0;
  if (!is_number(fields[2], quota) || quota < 0 || !is_number(fields[10], flat_limit))
    throw Error{ErrorCode::rendezvous,
                fmt::format("rank {} published something that is not tutti's ({} bytes): another program or version "
                            "shares this store under the same job name",
                            rank, text.size()),
                rank};
  return {fields[0], fields[1], quota,     fields[3], fields[4],  fields[5],
          fields[6], fields[7], fields[8], fields[9], flat_limit, fields[11]};
}

}  // namespace tutti::detail
