#include "lib/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "tutti/error.h"

namespace tutti::detail {

std::string Card::encode() const {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", host, process, cores, shm, tcp, domain, watch,
                     fingerprint, allowed, encrypted);
}

Card Card::decode(const std::string& text, int rank) {
  std::array<std::string, 10> fields;
  std::size_t begin = 0;
  for (std::string& field : fields) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    field = text.substr(begin, end - begin);
    begin = std::min(end + 1, text.size());
  }
  int cores = 0;
  const std::string& number = fields[2];
  const auto [stopped, failure] = std::from_chars(number.data(), number.data() + number.size(), cores);
  if (failure != std::errc{} || stopped != number.data() + number.size() || cores < 1)
    throw Error{ErrorCode::rendezvous,
                fmt::format("rank {} published something that is not tutti's ({} bytes): another program or version "
                            "shares this store under the same job name",
                            rank, text.size()),
                rank};
  return {fields[0], fields[1], cores, fields[3], fields[4], fields[5], fields[6], fields[7], fields[8], fields[9]};
}

}  // namespace tutti::detail
