#pragma once

#include <memory>
#include <string>

#include "tutti/store.h"

namespace tutti::rendezvous {

/// memory_store(), which errors call `where`.
std::shared_ptr<Store> open_memory_store(std::string where);

}  // namespace tutti::rendezvous
