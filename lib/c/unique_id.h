#pragma once

#include <memory>

#include "lib/security/tls_proxy.h"
#include "tutti/c.h"
#include "tutti/options.h"
#include "tutti/store.h"

namespace tutti::c_api {

/// Opens a store in this process at an address of this host. Its address and its secret are the id.
tutti_unique_id create_unique_id();

/// Rank `options.rank` meets the others at the store with that id. `tls_proxies` encrypt this connection, and are to
/// encrypt all else; null: nothing is. Where the store is in this process, it lives as long as its clients. The secret
/// from which links get their keys is the job's, not the id's, since programs may pass an id on in the clear. Throws
/// Wrong if this rank has been there already.
std::shared_ptr<Store> meet_at(const tutti_unique_id& id, const ConnectOptions& options, Store::Milliseconds timeout,
                               const std::shared_ptr<TlsProxies>& tls_proxies);

/// Passes an id of rank 0 on to all ranks by the program's own way. Every rank calls. Throws Wrong if that way is not
/// what it should be, and Error{rendezvous} with the words of rank 0 if that has no id.
tutti_unique_id share_unique_id(int rank, int ranks, tutti_all_gather_function all_gather, void* context);

}  // namespace tutti::c_api
