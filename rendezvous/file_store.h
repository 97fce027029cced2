#pragma once

#include <memory>
#include <string>

#include "tutti/store.h"

namespace tutti::rendezvous {

/// file_store() with a timeout that also bounds the opening. With `own_folder`, the folder of `path` belongs to this
/// job: it is made, readable by this user only, and the last user removes it too.
std::shared_ptr<Store> open_file_store(const std::string& path, int users, Store::Milliseconds timeout,
                                       bool own_folder = false);

}  // namespace tutti::rendezvous
