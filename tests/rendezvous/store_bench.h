#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tests/rendezvous/harness.h"

namespace tutti::testing {

/// One store, and ways to open it again.
struct Bench {
  std::string name;
  std::function<std::shared_ptr<Store>()> open;
};

/// A server that somebody else wrote and started, with keys of others in it: see torch_store.py.
std::optional<rendezvous::Endpoint> foreign_server();

/// Calls body for a store of each kind; each is new and empty.
void for_each_store(const std::function<void(const Bench&)>& body);

}  // namespace tutti::testing
