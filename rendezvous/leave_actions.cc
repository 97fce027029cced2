#include "rendezvous/leave_actions.h"

#include <utility>

#include "rendezvous/packed.h"

namespace tutti::rendezvous {
namespace {

constexpr std::string_view will_mark = "/.will/";
constexpr const char* to_erase = "erase";
constexpr const char* to_set = "set";

std::string key_of(const std::string& name) { return ".will/" + name; }

}  // namespace

LeaveActions& LeaveActions::erase(std::string name) {
  changes_.push_back({std::move(name), std::nullopt});
  return *this;
}

LeaveActions& LeaveActions::set(std::string name, std::string value) {
  changes_.push_back({std::move(name), std::move(value)});
  return *this;
}

void LeaveActions::execute(Store& store, const std::string& name) const {
  store.set(key_of(name), "");
  if (!store.check({&place_, 1}) || store.get(place_) != holder_) return;
  for (const auto& [key, value] : changes_) {
    if (value) {
      store.set(key, *value);
    } else {
      store.erase(key);
    }
  }
}

void LeaveActions::deposit(Store& store, const std::string& name) const { store.set(key_of(name), encode()); }

std::optional<std::string> LeaveActions::prefix_of(std::string_view key) {
  const std::size_t at = key.rfind(will_mark);
  if (at == std::string_view::npos || key.find('/', at + will_mark.size()) != std::string_view::npos)
    return std::nullopt;
  return std::string{key.substr(0, at + 1)};
}

std::string LeaveActions::encode() const {
  std::vector<std::string> words{place_, holder_};
  for (const auto& [name, value] : changes_)
    words.insert(words.end(), {value ? to_set : to_erase, name, value.value_or("")});
  return pack(words);
}

std::optional<LeaveActions> LeaveActions::decode(std::string_view text) {
  const auto words = unpack(text);
  if (!words || words->size() < 2 || words->size() % 3 != 2) return std::nullopt;
  LeaveActions actions{(*words)[0], (*words)[1]};
  for (std::size_t i = 2; i < words->size(); i += 3) {
    const bool sets = (*words)[i] == to_set;
    if (!sets && (*words)[i] != to_erase) return std::nullopt;
    actions.changes_.push_back({(*words)[i + 1], sets ? std::optional{(*words)[i + 2]} : std::nullopt});
  }
  return actions;
}

}  // namespace tutti::rendezvous
