#include "tutti/error.h"

#include <utility>

namespace tutti {
namespace detail {

/// The interface carries its version in its names, but private functions do not: a program that was linked with two
/// versions would run a mix of them. Each version has this one name, so that the linker refuses both together. It is
/// beside Error, which all of the library uses.
extern const char two_versions_of_tutti_in_one_program;
const char two_versions_of_tutti_in_one_program = 0;

}  // namespace detail

const char* tutti::name_of(ErrorCode code) {
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
