#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/error.h"

namespace tutti::detail {

// What failure detectors tell each other, apart from the data: which ranks are alive, what has failed, who waits for
// whom. A message is
//
//   u32 length of what follows | u8 kind | fields of that kind, see control_message.cc
//
// Only ranks that have proved to belong to the job exchange them. Every length is checked all the same.

/// The first failure of a group, as all its members are told it.
struct Failure {
  std::uint64_t group = 0;  ///< 0: a process is lost, and with it every group of which it is a member
  ErrorCode code = ErrorCode::peer_lost;
  int culprit = -1;  ///< global rank; -1: no rank in particular
  std::uint64_t operation = 0;
  std::string text;  ///< the message: who, what, how far

  friend bool operator==(const Failure&, const Failure&) = default;
};

/// An operation that takes long, about which its rank asks the coordinator.
struct Report {
  std::uint64_t group = 0;
  std::uint64_t operation = 0;             ///< 0: a send or receive; of a reunion, the number of the member's call
  bool overdue = false;                    ///< its deadline has passed, so there must be an answer
  bool stalled = false;                    ///< it has received nothing since its last report
  int reporter = -1;                       ///< global rank
  int peer = -1;                           ///< the peer of a send or receive, a global rank; -1: any
  std::string call;                        ///< the call, in words
  std::vector<int> members;                ///< global ranks
  std::vector<std::uint64_t> groups = {};  ///< groups that the reporter has made, and those it has closed recently
  bool lists_all = true;                   ///< false: it may have made others

  friend bool operator==(const Report&, const Report&) = default;
};

/// The answer of a rank that is asked about one operation of one group.
struct Status {
  enum class Presence : std::uint8_t { absent, here, closed };
  Presence presence = Presence::absent;  ///< whether it has made the group, and has closed it
  std::uint64_t started = 0;             ///< number of the last operation that it has called in the group
  std::uint64_t finished = 0;            ///< number of the last one that has ended
  std::string call;                      ///< its own call of that number; empty: none, or no longer known
  /// The kind of call in which it is now, in any group.
  enum class Wait : std::uint8_t { nothing, collective, send, receive, other };
  Wait wait = Wait::nothing;
  bool asynchronous = false;     ///< that call was started, and its caller may be doing something else
  std::string doing;             ///< that call in words
  std::string unclaimed;         ///< a message from the awaited rank that matches no receive here
  std::vector<int> awaited;      ///< global ranks of the group for whose messages, or room for its own, it waits
  std::vector<int> unread;       ///< those of them whose messages may be on their way, whether they have left or not
  std::uint32_t steps_done = 0;  ///< of the operation in question
  std::uint32_t steps = 0;
  bool in_rounds = false;               ///< the steps are rounds of a board
  bool on_stream = false;               ///< the steps are waits and signals of a GPU's stream
  std::vector<std::uint64_t> sends;     ///< by rank of the group: the counts that it gave in a _v call
  std::vector<std::uint64_t> receives;  ///< by rank of the group: its recv_counts of an all_to_all_v
  std::uint64_t other_group = 0;
  std::vector<int> other_members;  ///< of a group in which it waits, and which the reporter, a member, has not made

  friend bool operator==(const Status&, const Status&) = default;
};

struct ControlMessage {
  enum class Kind : std::uint8_t {
    beat,       ///< a heartbeat
    ready,      ///< from the first coordinator: all ranks are connected, begin
    leave,      ///< the sender ends on purpose; `ranks`: those that have left, for the next coordinator
    failure,    ///< to the coordinator: a rank has found this failure; from it: this has failed
    report,     ///< to the coordinator: `report`
    question,   ///< from the coordinator: what do you know about `report`? `number` names the query
    answer,     ///< to the coordinator: `status`, for query `number`
    reunion,    ///< to the coordinator: the sender wants to go on with the survivors of `report`, or, if that is
                ///< overdue, that call does not wait any more
    decision,   ///< from the coordinator: the survivors are `ranks`, and their group is `number`
    suspicion,  ///< to the coordinator: a link broke or calls differ, which looks like `failure` from here; of calls,
                ///< `report` says which the coordinator is to compare
    departed,   ///< from the coordinator: the processes of `ranks` have ended, as far as it knows on purpose
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

/// Cuts texts of more than 4 KiB, and lists of more than `most_listed`. A report whose groups were cut says so.
std::string encode(const ControlMessage& message);
/// Decodes what follows the length. Nothing: it is no valid message.
std::optional<ControlMessage> decode_control_message(std::span<const char> bytes);

}  // namespace tutti::detail
