#pragma once

#include <map>
#include <string>
#include <string_view>

#include "rendezvous/file_log.h"
#include "rendezvous/process.h"

namespace tutti::rendezvous {

/// The users that have signed in, numbered by order of arrival. Each takes one of the places that there are, and frees
/// it if it gives it back as it leaves.
struct Visitors {
  int arrived = 0;
  int seated = 0;         ///< places that are taken
  int expected = 0;       ///< places that there are
  bool all_came = false;  ///< all places have been taken once
  std::map<int, Process> present;

  void note(const Record& record);
};

/// The value of the record of a user that leaves, and gives its place back.
inline constexpr std::string_view place_given_back = "place";

/// Removes folders beside `ours` in which jobs met whose processes were all killed: no later job takes their names.
void remove_left_folders(const std::string& ours);

}  // namespace tutti::rendezvous
