#pragma once

#include <string>

#include "lib/base/host.h"

namespace tutti::detail {

/// What a rank publishes about itself in the store, one field per line.
struct Card {
  std::string host;
  std::string process;
  int quota = 0;    ///< cores that its cgroup gives it, 0: all
  std::string shm;  ///< address, empty: none
  std::string tcp;
  std::string domain;
  std::string watch = {};        ///< address, empty: none
  std::string fingerprint = {};  ///< of the key
  std::string allowed = allowed_cores();
  std::string encrypted = {};  ///< "tls", empty: its connections are not
  std::size_t flat_limit = 0;  ///< bytes it would contribute to a flat call
  std::string traces = {};     ///< "trace", empty: it keeps none

  std::string encode() const;
  /// Throws Error{rendezvous} that names `rank` when it is none of ours.
  static Card decode(const std::string& text, int rank);
};

}  // namespace tutti::detail
