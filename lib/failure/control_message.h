#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/error.h"

namespace tutti::detail {

// What ranks tell each other behind the back of the data: who lives, what failed, who waits for whom. One message is
//
//   u32 length of what follows | u8 kind | fields of that kind, see control_message.cc
//
// Only between ranks that have proved to belong to the job; all the same every length is checked.

/// The first failure of a group, as all its members shall hear it.
struct Failure {
  std::uint64_t group = 0;  ///< 0: a whole process is lost, and with it every group that it is a member of
  ErrorCode code = ErrorCode::peer_lost;
  int culprit = -1;  ///< global rank; -1: nobody in particular
  std::uint64_t operation = 0;
  std::string text;  ///< the sentence: who, what, how far

  friend bool operator==(const Failure&, const Failure&) = default;
};

/// An operation that takes long, and wants to know why.
struct Report {
  std::uint64_t group = 0;
  std::uint64_t operation = 0;             ///< 0: a send or receive
  bool overdue = false;                    ///< its deadline has passed: there must be an answer
  bool stalled = false;                    ///< nothing has moved since its last report
  int reporter = -1;                       ///< global rank
  int peer = -1;                           ///< global rank of a send or receive's; -1: any
  std::string call;                        ///< in words
  std::vector<int> members;                ///< global ranks
  std::vector<std::uint64_t> groups = {};  ///< all that the reporter has made, and those it has closed recently
  bool lists_all = true;                   ///< no: there are too many, and `groups` says nothing about others

  friend bool operator==(const Report&, const Report&) = default;
};

/// What a rank answers when it is asked about one operation of one group.
struct Status {
  enum class Presence : std::uint8_t { absent, here, closed };
  Presence presence = Presence::absent;  ///< whether it has made the group, or closed it already
  std::uint64_t started = 0;             ///< the last operation that it has called there
  std::uint64_t finished = 0;            ///< the last one that has ended
  std::string call;                      ///< its own call of that number; empty: none, or too long ago to say
  /// What kind of call it is in now, in any group.
  enum class Wait : std::uint8_t { nothing, collective, send, receive, other };
  Wait wait = Wait::nothing;
  bool asynchronous = false;     ///< that call has begun, and its caller may be doing something else
  std::string doing;             ///< that call in words
  std::string unclaimed;         ///< a message that has come from whom it waits for, but that no receive here takes
  std::vector<int> awaited;      ///< global ranks whose message or place it waits for, in the group
  std::uint32_t steps_done = 0;  ///< of the operation asked about
  std::uint32_t steps = 0;
  bool in_rounds = false;               ///< the steps are rounds of a board
  std::vector<std::uint64_t> sends;     ///< by rank of the group: the counts that it gave, of a _v call
  std::vector<std::uint64_t> receives;  ///< recv_counts of an all_to_all_v
  std::uint64_t other_group = 0;
  std::vector<int>
      other_members;  ///< members of a group that it waits in, with the reporter, who has not made that one

  friend bool operator==(const Status&, const Status&) = default;
};

struct ControlMessage {
  enum class Kind : std::uint8_t {
    beat,       ///< a heartbeat
    ready,      ///< from the first coordinator: everybody is connected, begin
    leave,      ///< the sender ends on purpose; `ranks`: who else has left, for its successor as the coordinator
    failure,    ///< a rank has found this; or, from the coordinator, this is what failed
    report,     ///< to the coordinator
    question,   ///< from the coordinator: how is `report` with you? `number` names the query
    answer,     ///< to the coordinator: `status` for query `number`
    reunion,    ///< to the coordinator: the sender wants to go on with the survivors of `report`
    decision,   ///< from the coordinator: they are `ranks`, and their group is `number`
    suspicion,  ///< to the coordinator: a link broke, and `failure` is what that looks like from here
    departed,   ///< from the coordinator: the processes of `ranks` have ended, on purpose as far as it is known
  };
  Kind kind = Kind::beat;
  std::uint64_t number = 0;
  Failure failure{};
  Report report{};
  Status status{};
  std::vector<int> ranks{};

  friend bool operator==(const ControlMessage&, const ControlMessage&) = default;
};

inline constexpr std::size_t control_message_head = 4;
inline constexpr std::size_t max_control_message = 2 * 1024 * 1024;
/// The most ranks, or groups, that a message can list.
inline constexpr std::size_t most_listed = 0xffff;

/// Texts of more than 4 KiB are cut, and so are lists of more than `most_listed`. A report whose groups were cut says
/// so.
std::string encode(const ControlMessage& message);
/// What follows the length. Nothing if it is not ours.
std::optional<ControlMessage> decode_control_message(std::span<const char> bytes);

}  // namespace tutti::detail
