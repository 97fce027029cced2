#pragma once

/// Stores of keys and values for C11. All ranks see the same, before there is a communicator and beside one. A key has
/// at most 8 KiB, a value 8 MiB. Errors, ownership and structs are as in <tutti/c.h>.

#include <stdint.h>

#include "tutti/c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_store tutti_store;

/// Opens the store at which tutti_connect() would meet with these options, of which it takes no `id` or `all_gather`.
/// Its keys are its own: all ranks open stores and connect in the same order. Waits longer than `setup_timeout_ms`
/// fail. One thread at a time uses a handle.
/// Keep it until all ranks have read: rank 0 serves at "tcp://host:port" only while it has a handle, and a file, in
/// which ranks of mpirun and Slurm on one host meet, is removed once all ranks that have come so far have freed theirs.
TUTTI_C_API tutti_result tutti_store_open(const tutti_connect_options* options, tutti_store** store);
/// Another connection to the same keys, for another thread. A store in a file has none: TUTTI_UNSUPPORTED.
TUTTI_C_API tutti_result tutti_store_clone(tutti_store* store, tutti_store** made);
TUTTI_C_API tutti_result tutti_store_free(tutti_store* store);
/// Above 0. It bounds each wait and, at a server, each answer: if that is late, the connection is given up.
TUTTI_C_API tutti_result tutti_store_set_timeout(tutti_store* store, int64_t timeout_ms);
/// Sets the value, or adds to its end; a key that is not there has an empty one. Servers do not answer set, append and
/// queue_push, which return before the value is stored. It is once a function with an answer, such as check, has
/// returned for the same handle. A failure may show only in a later function.
TUTTI_C_API tutti_result tutti_store_set(tutti_store* store, const char* key, const void* value, uint64_t bytes);
TUTTI_C_API tutti_result tutti_store_append(tutti_store* store, const char* key, const void* value, uint64_t bytes);
/// Waits until all keys exist. `take` gets each value in order, valid until it returns. It must not call tutti.
typedef void (*tutti_value_function)(const void* value, uint64_t bytes, void* context);
TUTTI_C_API tutti_result tutti_store_get(tutti_store* store, const char* const* keys, uint64_t count,
                                         tutti_value_function take, void* context);
/// Sets `desired` if the value is `expected`; an empty `expected` also matches a key that is not there. `take` gets the
/// value that is stored now, or `expected` where the key is not there and nothing was stored.
TUTTI_C_API tutti_result tutti_store_compare_set(tutti_store* store, const char* key, const void* expected,
                                                 uint64_t expected_bytes, const void* desired, uint64_t desired_bytes,
                                                 tutti_value_function take, void* context);
/// Adds `delta` to the decimal number that is stored, or to 0; *sum is the result.
TUTTI_C_API tutti_result tutti_store_add(tutti_store* store, const char* key, int64_t delta, int64_t* sum);
/// Waits until all keys exist. A `timeout_ms` of 0 is the timeout of the store.
TUTTI_C_API tutti_result tutti_store_wait(tutti_store* store, const char* const* keys, uint64_t count,
                                          int64_t timeout_ms);
/// *all is 1 if all keys exist now, else 0.
TUTTI_C_API tutti_result tutti_store_check(tutti_store* store, const char* const* keys, uint64_t count, int32_t* all);
/// *existed is 1 if the key did, else 0.
TUTTI_C_API tutti_result tutti_store_erase(tutti_store* store, const char* key, int32_t* existed);
/// *keys is the number of keys of all jobs at the server.
TUTTI_C_API tutti_result tutti_store_key_count(tutti_store* store, int64_t* keys);

/// Queues: first in, first out. A queue exists while it has values, and wait and check take its name like that of a
/// key, so that one name is not for both: get of a queue's name may give an empty value. PyTorch's servers have queues
/// since 2.8, with libuv only.
TUTTI_C_API tutti_result tutti_store_queue_push(tutti_store* store, const char* name, const void* value,
                                                uint64_t bytes);
/// Takes the oldest value, which `take` gets. If there is none it waits, or with `wait` 0 does not call `take`.
TUTTI_C_API tutti_result tutti_store_queue_pop(tutti_store* store, const char* name, int32_t wait,
                                               tutti_value_function take, void* context);
/// *values is 0 where there is no queue.
TUTTI_C_API tutti_result tutti_store_queue_length(tutti_store* store, const char* name, int64_t* values);
/// `take` gets the name of each key of this store, in any order and without a zero at its end. Queues are not listed.
/// PyTorch's servers have this since 2.10.
TUTTI_C_API tutti_result tutti_store_list_keys(tutti_store* store, tutti_value_function take, void* context);

#ifdef __cplusplus
}
#endif
