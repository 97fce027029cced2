#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/store.h"

namespace tutti::rendezvous {

/// Changes that a client leaves with the server, made when the client goes if it still holds its place then.
///
/// Our TCP server makes them when the client's connection ends, for any reason. They are announced by an ordinary `set`
/// of the key ".will/<name>", so a store of another kind, such as PyTorch's, only keeps a key that nobody reads. Names
/// are relative to the folder of ".will": in "/job/.will/3" the name "place/3" is the key "/job/place/3". A
/// client has one value per key. A new one replaces it, and an empty one makes the server make the changes at once.
class LeaveActions {
 public:
  /// Valid while the key `place` has the value `holder`.
  LeaveActions(std::string place, std::string holder) : place_(std::move(place)), holder_(std::move(holder)) {}

  LeaveActions& erase(std::string name);
  LeaveActions& set(std::string name, std::string value);

  /// Sends them to the store, replacing those that were sent under `name` before.
  void deposit(Store& store, const std::string& name) const;
  /// Makes the changes under `name` now: our server does it atomically; for another store the client makes the changes
  /// itself.
  void execute(Store& store, const std::string& name) const;

  struct Change {
    std::string name;
    std::optional<std::string> value;  ///< nothing: erase it
  };
  const std::string& place() const { return place_; }
  const std::string& holder() const { return holder_; }
  const std::vector<Change>& changes() const { return changes_; }

  /// The part before ".will/<name>" of a key that names leave actions; nothing for other keys.
  static std::optional<std::string> prefix_of(std::string_view key);
  static std::optional<LeaveActions> decode(std::string_view text);
  std::string encode() const;

 private:
  std::string place_;
  std::string holder_;
  std::vector<Change> changes_;
};

}  // namespace tutti::rendezvous
