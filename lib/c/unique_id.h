#pragma once

#include <memory>

#include "tutti/c.h"
#include "tutti/store.h"

namespace tutti::c_api {

/// Opens a store in this process at an address of this host. Its address and its secret are the id.
tutti_unique_id create_unique_id();

/// This rank's client of the store with that id. Where the store is in this process, it lives as long as its clients.
/// Throws Error{invalid_argument} if this rank has had one already.
std::shared_ptr<Store> store_of(const tutti_unique_id& id, int rank, Store::Milliseconds timeout);

/// Passes an id of rank 0 on to all ranks by the program's own way. Every rank calls. Throws Error{invalid_argument} if
/// that way is not what it should be.
tutti_unique_id share_unique_id(int rank, int ranks, tutti_all_gather_function all_gather, void* context);

}  // namespace tutti::c_api
