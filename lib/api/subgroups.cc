// Communicators of some of the ranks of another one.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/base/internals.h"
#include "lib/collective/call.h"
#include "tutti/communicator.h"

namespace tutti {
namespace detail {
namespace {

std::uint64_t hash_of(std::span<const int> members, std::initializer_list<std::size_t> before) {
  std::vector<std::size_t> words{before};
  words.insert(words.end(), members.begin(), members.end());
  return counts_hash(words);
}

/// Made by a call of subgroup(), or of split(), that is the `turn`-th.
enum class Made : std::size_t { by_list, by_split };

/// A sub-group of `members`, global ranks. Its name is a hash of values that are equal on all members, without a
/// message.
std::shared_ptr<CommunicatorState> make_subgroup(const Group& parent, std::vector<int> members, Made made,
                                                 std::uint32_t turn) {
  const std::uint64_t name =
      hash_of(members, {static_cast<std::size_t>(parent.id()), static_cast<std::size_t>(made), turn});
  return make_state(parent.shared_context(),
                    name << 1,  // the lowest bit distinguishes the two channels of a group
                    std::move(members), parent.id());
}

}  // namespace
}  // namespace detail

Communicator Communicator::subgroup(std::span<const int> ranks) {
  detail::Group& group = detail::called(state_, "subgroup");
  const auto refuse = [&](const std::string& why) {
    throw Error{ErrorCode::invalid_argument,
                fmt::format("subgroup on rank {} of {}: {}", group.rank(), group.size(), why)};
  };
  std::vector<int> members;
  for (const int member : ranks) {
    if (member < 0 || member >= group.size())
      refuse(fmt::format("{} is not a rank of this communicator; valid are 0 to {}", member, group.size() - 1));
    const int global = group.global_rank(member);
    if (std::find(members.begin(), members.end(), global) != members.end())
      refuse(fmt::format("rank {} is listed twice", member));
    members.push_back(global);
  }
  if (std::find(ranks.begin(), ranks.end(), group.rank()) == ranks.end())
    refuse("this rank is not in the list; only the members of a sub-group call subgroup()");
  group.context().engine->require_other_owner();  // before this call counts
  std::uint32_t turn = 0;
  {
    const std::lock_guard lock{state_->mutex};
    turn = state_->subgroups_made[detail::hash_of(members, {})]++;
  }
  return detail::Internals::make<Communicator>(
      detail::make_subgroup(group, std::move(members), detail::Made::by_list, turn));
}

Communicator Communicator::split_by_host() { return subgroup(detail::called(state_, "split_by_host").local_ranks()); }

Communicator Communicator::split(int colour, int key) {
  detail::called(state_, "split");
  if (colour < 0 && colour != no_group)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("split on rank {} of {}: colour {} is negative; valid are 0 and above, and {} for a rank "
                            "that joins no group",
                            rank(), size(), colour, no_group)};
  const std::array<int, 2> mine{colour, key};
  std::vector<int> all(2 * static_cast<std::size_t>(size()));
  {
    const detail::Within within{state_->group, "split()"};
    all_gather(mine, all);
  }
  const std::uint32_t turn = state_->splits_made++;  // all ranks split together, so their counts agree
  if (colour == no_group) return Communicator{nullptr};
  std::vector<int> ranks;
  for (int other = 0; other < size(); ++other)
    if (all[2 * static_cast<std::size_t>(other)] == colour) ranks.push_back(other);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return all[2 * static_cast<std::size_t>(a) + 1] < all[2 * static_cast<std::size_t>(b) + 1];
  });
  for (int& member : ranks) member = state_->group.global_rank(member);
  return detail::Internals::make<Communicator>(
      detail::make_subgroup(state_->group, std::move(ranks), detail::Made::by_split, turn));
}

}  // namespace tutti
