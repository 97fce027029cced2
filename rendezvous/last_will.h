#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/store.h"

namespace tutti::rendezvous {

/// What a client leaves behind: changes that are made when it goes, if it still holds its place then.
///
/// Our own TCP server makes them when the client's connection ends, whatever ended it. It is told by an ordinary `set`
/// of the key ".will/<name>", so that a store of another kind, PyTorch's for example, keeps a key that nobody reads,
/// and no more. Names are relative to where ".will" is: of "/job/.will/3" the name "place/3" is the key "/job/place/3".
/// There is one will per client and key; a new one takes its place, and an empty one has it carried out at once.
class LastWill {
 public:
  /// It holds as long as the key `place` has the value `holder`.
  LastWill(std::string place, std::string holder) : place_(std::move(place)), holder_(std::move(holder)) {}

  LastWill& erase(std::string name);
  LastWill& set(std::string name, std::string value);

  /// Tells the store, which replaces what `name` told it before.
  void deposit(Store& store, const std::string& name) const;
  /// Has what `name` told the store carried out now: by our server, all at once; in another store by oneself.
  void execute(Store& store, const std::string& name) const;

  struct Change {
    std::string name;
    std::optional<std::string> value;  ///< nothing: erase it
  };
  const std::string& place() const { return place_; }
  const std::string& holder() const { return holder_; }
  const std::vector<Change>& changes() const { return changes_; }

  /// What stands before ".will/<name>" in a key that names a will; nothing for other keys.
  static std::optional<std::string> prefix_of(std::string_view key);
  static std::optional<LastWill> decode(std::string_view text);
  std::string encode() const;

 private:
  std::string place_;
  std::string holder_;
  std::vector<Change> changes_;
};

}  // namespace tutti::rendezvous
