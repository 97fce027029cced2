#include "tutti/error.h"

#include <utility>

namespace tutti {

const char* name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::peer_lost:
      return "peer_lost";
    case ErrorCode::aborted:
      return "aborted";
    case ErrorCode::rendezvous:
      return "rendezvous";
    case ErrorCode::system:
      return "system";
    case ErrorCode::corrupted:
      return "corrupted";
    case ErrorCode::truncated:
      return "truncated";
  }
  return "unknown";
}

Error::Error(ErrorCode code, const std::string& message, int rank, std::uint64_t operation)
    : std::runtime_error(message), code_(code), rank_(rank), operation_(operation) {}

Error::~Error() = default;

const FailureDetails& Error::details() const {
  static const FailureDetails none;
  return details_ ? *details_ : none;
}

}  // namespace tutti
