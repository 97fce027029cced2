#pragma once

#include <memory>

#include "lib/security/tls_proxy.h"
#include "tutti/c.h"
#include "tutti/options.h"
#include "tutti/store.h"

namespace tutti::c_api {

/// Opens a store in this process at an address of this host. Its address and its secret are the id.
tutti_unique_id create_unique_id();

struct Meeting {
  std::shared_ptr<Store> store;
  std::shared_ptr<TlsProxies> tls_proxies;  ///< encrypt the store, and are to encrypt all else; null: nothing is
};

/// Rank `options.rank` meets the others at the store with that id. Where the store is in this process, it lives as long
/// as its clients. The secret from which links get their keys is the job's, not the id's, since programs may pass an id
/// on in the clear. Throws Error{invalid_argument} if this rank has been there already, or if it is to encrypt and has
/// no secret.
Meeting meet_at(const tutti_unique_id& id, const ConnectOptions& options, Store::Milliseconds timeout);

/// Passes an id of rank 0 on to all ranks by the program's own way. Every rank calls. Throws Error{invalid_argument} if
/// that way is not what it should be.
tutti_unique_id share_unique_id(int rank, int ranks, tutti_all_gather_function all_gather, void* context);

}  // namespace tutti::c_api
