#include "transport/tcp/read_ahead.h"

#include <algorithm>
#include <cstring>

namespace tutti::transport::tcp {

std::span<std::byte> ReadAhead::room() {
  if (begin_ > 0) {
    std::memmove(memory_.data(), memory_.data() + begin_, size());
    end_ -= begin_;
    begin_ = 0;
  }
  return std::span(memory_).subspan(end_);
}

void ReadAhead::add(std::span<const std::byte> more) {
  const std::size_t count = std::min(more.size(), room().size());
  if (count > 0) std::memcpy(memory_.data() + end_, more.data(), count);
  end_ += count;
}

std::size_t ReadAhead::take(std::span<std::byte> to) {
  const std::size_t count = std::min(to.size(), size());
  if (count > 0) std::memcpy(to.data(), memory_.data() + begin_, count);
  begin_ += count;
  return count;
}

}  // namespace tutti::transport::tcp
