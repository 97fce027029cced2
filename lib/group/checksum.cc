#include "lib/group/checksum.h"

#include <fmt/format.h>

#include "lib/base/crc32c.h"
#include "lib/group/group.h"

namespace tutti::detail {
namespace {

std::uint32_t as_sent(std::uint32_t crc) { return crc == 0 ? ~std::uint32_t{0} : crc; }

}  // namespace

std::uint32_t checksum_of(std::span<const std::byte> payload) { return as_sent(crc32c(payload)); }

void Arriving::add(std::span<const std::byte> piece) {
  if (promised_ != 0) crc_ = crc32c(piece, crc_);
}

bool Arriving::broken() const { return promised_ != 0 && promised_ != as_sent(crc_); }

Error Arriving::complaint(const Group& group, int source, std::size_t bytes, std::uint64_t operation) const {
  return Error{ErrorCode::corrupted,
               fmt::format("{} bytes from {} to {} were changed on their way: they were sent with checksum {:08x} and "
                           "arrived with {:08x}. Memory or network of one of these hosts is faulty; do not trust "
                           "results computed there",
                           bytes, group.name_of(source), group.name_of(group.rank()), promised_, as_sent(crc_)),
               source, operation};
}

}  // namespace tutti::detail
