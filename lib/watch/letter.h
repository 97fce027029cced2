#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/error.h"

namespace tutti::detail {

// What ranks tell each other behind the back of the data: who lives, what failed, who waits for whom. One letter is
//
//   u32 length of what follows | u8 kind | fields of that kind, see letter.cc
//
// Only between ranks that have proved to belong to the job; all the same every length is checked.

/// The first failure of a group, as all its members shall hear it.
struct Verdict {
  std::uint64_t group = 0;  ///< 0: a whole process is lost, and with it every group that it is a member of
  ErrorCode code = ErrorCode::peer_lost;
  int culprit = -1;  ///< global rank; -1: nobody in particular
  std::uint64_t operation = 0;
  std::string text;  ///< the sentence: who, what, how far

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// An operation that takes long, and wants to know why.
struct Report {
  std::uint64_t group = 0;
  std::uint64_t operation = 0;             ///< 0: a send or receive
  bool overdue = false;                    ///< its deadline has passed: there must be a verdict
  bool stalled = false;                    ///< nothing has moved since its last report
  int reporter = -1;                       ///< global rank
  std::string call;                        ///< in words
  std::vector<int> members;                ///< global ranks
  std::vector<std::uint64_t> groups = {};  ///< all that the reporter has made, also those it has closed of late

  friend bool operator==(const Report&, const Report&) = default;
};

/// What a rank answers when it is asked about one operation of one group.
struct Status {
  enum class Presence : std::uint8_t { absent, here, closed };
  Presence presence = Presence::absent;  ///< has it made the group yet, or closed it already
  std::uint64_t started = 0;             ///< the last operation that it has called there
  std::uint64_t finished = 0;            ///< the last one that has ended
  std::string call;                      ///< its own call of that number; empty: none, or too long ago to say
  std::string doing;                     ///< what it waits in now, anywhere
  std::vector<int> awaited;              ///< global ranks whose message or place it waits for, in the group
  std::uint32_t steps_done = 0;          ///< of the operation asked about
  std::uint32_t steps = 0;
  std::uint64_t rival_group = 0;
  std::vector<int> rival;  ///< members of a group that it waits in, with the reporter, who has not made that one

  friend bool operator==(const Status&, const Status&) = default;
};

struct Letter {
  enum class Kind : std::uint8_t {
    beat,        ///< nothing but a sign of life
    ready,       ///< from the first centre: everybody is connected, begin
    leave,       ///< the sender ends on purpose; `ranks`: who else has left, for its successor as the centre
    verdict,     ///< to the centre: found this; from it: this is what failed
    report,      ///< to the centre
    question,    ///< from the centre: how is `report` with you? `number` names the inquest
    answer,      ///< to the centre: `status` for inquest `number`
    reunion,     ///< to the centre: the sender wants to go on with the survivors of `report`
    decision,    ///< from the centre: they are `ranks`, and their group is `number`
    accusation,  ///< to the centre: a link broke, and `verdict` is what that looks like from here
  };
  Kind kind = Kind::beat;
  std::uint64_t number = 0;
  Verdict verdict{};
  Report report{};
  Status status{};
  std::vector<int> ranks{};

  friend bool operator==(const Letter&, const Letter&) = default;
};

inline constexpr std::size_t letter_head = 4;
inline constexpr std::size_t max_letter = 64 * 1024;

/// Texts and lists that would make it longer than max_letter are cut.
std::string encode(const Letter& letter);
/// What follows the length. Nothing if it is not ours.
std::optional<Letter> decode_letter(std::span<const char> bytes);

}  // namespace tutti::detail
