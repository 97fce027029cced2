#pragma once

/// tutti for C11, and for every language that can call C: ranks that exchange and combine data. <tutti/c_store.h> has
/// their stores of keys and values, and <tutti/c_gpu.h> memory of GPUs that all ranks can use.
///
///     tutti_comm* comm = NULL;
///     if (tutti_connect(NULL, &comm)) return puts(tutti_last_error());     // NULL: as the launcher's environment says
///     tutti_all_reduce(comm, x, x, count, TUTTI_F32, TUTTI_SUM, NULL);     // in place: x becomes the sum of all x
///     tutti_comm_free(comm);
///
/// Errors:    every function that can fail returns 0, or a tutti_result with the words in tutti_last_error(). Wrong
///            arguments, NULL among them, are TUTTI_INVALID_ARGUMENT: nothing was sent. The communicator is as before
///            then, and after TUTTI_UNSUPPORTED, TUTTI_TRUNCATED, the timeout of a probe, and some failures to share
///            memory of GPUs (<tutti/c_gpu.h>). After all other errors it is unusable.
/// Ownership: what a function returns through a `**` is the caller's, who frees it with the function of its name; NULL
///            may be freed. It is set to NULL if the function fails, but not in options of a wrong `size`. Texts and
///            options are copied. Buffers stay yours.
/// Agreement: all ranks make the same collective calls on a communicator, in the same order, with the same count, type,
///            op and root; else TUTTI_MISMATCH.
/// Threads:   any thread may call, several at once, also on one communicator and on one tutti_work. One handle of
///            tutti_persistent is used by one thread at a time. Nobody may use what another thread frees.
/// Fork:      a child may free what it inherited; what sends or waits by that is TUTTI_INVALID_ARGUMENT. It may connect
///            anew.
/// Structs:   set `size` to sizeof of the struct, and members that you do not need to 0, which means the default. New
///            versions add members at the end only, so that a program need not be compiled again.

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TUTTI_C_API __attribute__((visibility("default")))
#else
#define TUTTI_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// ---- Words -------------------------------------------------------------------------------------------------------

/// Fixed numbers, so that bindings may repeat them.
typedef int32_t tutti_result;
enum {
  TUTTI_OK = 0,
  TUTTI_INVALID_ARGUMENT = 1,  ///< the call itself is wrong; nothing was sent, the communicator is as before
  TUTTI_UNSUPPORTED = 2,       ///< valid, but not supported by this build or algorithm; nothing was sent
  TUTTI_MISMATCH = 3,          ///< ranks called different things
  TUTTI_TIMEOUT = 4,           ///< the deadline passed; the communicator is unusable, except after a probe
  TUTTI_PEER_LOST = 5,         ///< a rank died, left or cannot be reached
  TUTTI_ABORTED = 6,           ///< the communicator was freed or aborted with work pending
  TUTTI_RENDEZVOUS = 7,        ///< ranks did not find each other
  TUTTI_SYSTEM = 8,            ///< the operating system refused something, such as memory
  TUTTI_CORRUPTED = 9,         ///< data changed on its way between two ranks
  TUTTI_TRUNCATED = 10,        ///< a message did not fit into its receive and was dropped; the communicator goes on
  TUTTI_INTERNAL = 127         ///< a fault of tutti's own
};

/// Type of an element. Calls that only move data look at its size; send structs as TUTTI_U8. tutti_op_kind says which
/// types a reduction takes.
typedef int32_t tutti_type;
enum {
  TUTTI_I8 = 0,
  TUTTI_U8 = 1,
  TUTTI_I16 = 2,
  TUTTI_U16 = 3,
  TUTTI_I32 = 4,
  TUTTI_U32 = 5,
  TUTTI_I64 = 6,
  TUTTI_U64 = 7,
  TUTTI_BOOL = 8,   ///< of one byte, 0 or 1
  TUTTI_F16 = 9,    ///< IEEE 754 half precision
  TUTTI_BF16 = 10,  ///< the upper half of a float
  TUTTI_F32 = 11,
  TUTTI_F64 = 12,
  TUTTI_C64 = 13,  ///< complex: two floats
  TUTTI_C128 = 14  ///< complex: two doubles
};

/// How a reduction combines elements. Ops are taken to be associative and commutative, except in scans. A NaN among the
/// elements makes the result NaN, also in TUTTI_MIN and TUTTI_MAX.
typedef int32_t tutti_op_kind;
enum {
  TUTTI_SUM = 0,      ///< of all types; of TUTTI_BOOL their or
  TUTTI_PRODUCT = 1,  ///< of all types; of TUTTI_BOOL their and
  TUTTI_MIN = 2,      ///< of all types but complex, as TUTTI_MAX
  TUTTI_MAX = 3,
  TUTTI_BAND = 4,  ///< of integers and TUTTI_BOOL, as TUTTI_BOR and TUTTI_BXOR
  TUTTI_BOR = 5,
  TUTTI_BXOR = 6,
  TUTTI_AVG = 7,         ///< the sum divided by the number of ranks; of all types but TUTTI_BOOL; not for scans
  TUTTI_PREMUL_SUM = 8,  ///< the sum of factor * x, of floating and complex types: needs tutti_call_options.op
  TUTTI_USER = 9         ///< a function of your own: needs tutti_call_options.op
};

typedef int32_t tutti_collective;
enum {
  TUTTI_ALL_REDUCE = 0,
  TUTTI_REDUCE = 1,
  TUTTI_BROADCAST = 2,
  TUTTI_ALL_GATHER = 3,
  TUTTI_REDUCE_SCATTER = 4,
  TUTTI_SCATTER = 5,
  TUTTI_GATHER = 6,
  TUTTI_ALL_TO_ALL = 7,
  TUTTI_BARRIER = 8,
  TUTTI_SCAN = 9,
  TUTTI_EXCLUSIVE_SCAN = 10
};

enum { TUTTI_ANY_SOURCE = -1, TUTTI_ANY_TAG = -1 };
/// The colour of a rank that takes part in tutti_comm_split() and joins no group.
enum { TUTTI_NO_GROUP = -1 };

typedef struct tutti_comm tutti_comm;              ///< a fixed group of ranks
typedef struct tutti_work tutti_work;              ///< an operation that was started
typedef struct tutti_persistent tutti_persistent;  ///< a collective that can be started any number of times
typedef struct tutti_op tutti_op;                  ///< an op with a factor, or of your own

// ---- Version and errors ------------------------------------------------------------------------------------------

/// "0.2.0"; and the number in the name libtutti.so.0, which changes when programs have to be compiled again.
TUTTI_C_API const char* tutti_version(void);
TUTTI_C_API int32_t tutti_abi_version(void);
/// "invalid_argument", "peer_lost" ...
TUTTI_C_API const char* tutti_result_name(tutti_result result);
/// Sentences about the last failure of a function of tutti in this thread, valid until the next; "" if there was none.
TUTTI_C_API const char* tutti_last_error(void);
/// The same for programs. Unknown members are 0 or "". Texts are valid until the next failure in this thread.
typedef struct tutti_error_details {
  size_t size;
  tutti_result code;
  int32_t rank;             ///< of the culprit in the communicator; -1: there is none
  uint64_t operation;       ///< number of the call on the communicator, from 1
  const char* message;      ///< tutti_last_error()
  const char* host;         ///< of the culprit
  const char* process;      ///< of the culprit: "pid 1234"
  const char* collective;   ///< "all_reduce", "send" ...
  const char* algorithm;    ///< "tree:4"
  const char* data_type;    ///< "f32"
  uint64_t count;           ///< elements of the call
  uint64_t steps_done;      ///< of this rank's plan, or rounds
  uint64_t steps;           ///< of this rank's plan, in all, or rounds
  uint64_t bytes_received;  ///< of the call
  int32_t reported;         ///< 1: another rank found the failure and told this one
  int32_t in_rounds;        ///< 1: a board, memory that all ranks map, was used, and steps count its rounds
} tutti_error_details;
TUTTI_C_API tutti_result tutti_last_error_details(tutti_error_details* details);

// ---- Waiting -----------------------------------------------------------------------------------------------------

/// Is called about ten times a second in a thread of yours that sleeps in a function of tutti. Returns 0 to go on.
/// Otherwise the function fails with TUTTI_ABORTED, and so do all calls on its communicator, on all ranks. It returns
/// when its operation has left your buffers. Where that takes longer than a second, it asks again, and returns at once
/// if the answer is not 0: then the buffers must live until the communicator is freed. The hook must not call tutti,
/// and must return (no longjmp, no exception). Interpreters run their signal handlers there.
typedef int32_t (*tutti_wait_function)(void* context);
/// For the whole process; NULL: nobody is asked. A thread that sleeps already may still call the function before.
TUTTI_C_API tutti_result tutti_set_wait_hook(tutti_wait_function function, void* context);

// ---- Joining the other ranks -------------------------------------------------------------------------------------

/// A place to meet, with a secret that keeps others out: pass it on by a way that others cannot read.
typedef struct tutti_unique_id {
  char bytes[128];
} tutti_unique_id;

/// Opens a store in this process at an address of this host. It serves one tutti_connect() of each rank, and ends with
/// the communicator that this process connects with the id, else with the process. Any process may call.
TUTTI_C_API tutti_result tutti_unique_id_create(tutti_unique_id* id);

/// Copies the `bytes` at `mine` of every rank to `all`, by rank, on every rank. Returns 0; anything else is a failure.
typedef int32_t (*tutti_all_gather_function)(const void* mine, void* all, uint64_t bytes, void* context);

typedef struct tutti_connect_options {
  size_t size;
  int32_t rank;   ///< of this process; used if `ranks` is not 0
  int32_t ranks;  ///< number of ranks; 0: both as the launcher's environment says, and without it rank 0 of 1
  /// Where ranks meet, at most one of three. None: as the environment says.
  /// "tcp://host:port" (rank 0 serves), "store://host:port" (served already), "file:///path", "env://"
  const char* rendezvous;
  const tutti_unique_id* id;             ///< the same on all ranks; needs `ranks`
  tutti_all_gather_function all_gather;  ///< called once, during tutti_connect(); needs `ranks`
  void* all_gather_context;              ///< its last argument
  const char* job;                       ///< separates jobs that share a store
  const char* secret_file;               ///< file with the secret that all ranks share; see docs/security.md
  const char* transport;                 ///< "shm,tcp", "tcp", "^shm": what ranks may talk over
  const char* tuning_file;               ///< a table by `tutti tune`
  const char* plan_file;                 ///< a plan by `tutti plan --save`
  int64_t setup_timeout_ms;              ///< of tutti_connect(); 0: TUTTI_TIMEOUT or 300 s
  int64_t timeout_ms;                    ///< of a call that gives none itself; 0: TUTTI_TIMEOUT or 300 s
  int64_t lost_after_ms;                 ///< silence after which a rank counts as lost; 0: TUTTI_LOST_AFTER or 10 s
  int32_t deterministic;                 ///< 1: every result is the left fold in rank order
  /// 1: encrypts what goes over TCP, to the store and between ranks; not a launcher's own store, such as torchrun's,
  /// nor what `all_gather` does. Needs a secret that all ranks share beside that of an id: `secret_file` or
  /// TUTTI_SECRET.
  int32_t tls;
} tutti_connect_options;

/// Joins the ranks that the launcher started (`options` NULL), or those that `options` describe. Returns when all have
/// met each other.
TUTTI_C_API tutti_result tutti_connect(const tutti_connect_options* options, tutti_comm** comm);
/// Waits until the transports have taken all messages. Work still pending fails with TUTTI_ABORTED.
TUTTI_C_API tutti_result tutti_comm_free(tutti_comm* comm);
TUTTI_C_API tutti_result tutti_comm_rank(const tutti_comm* comm, int32_t* rank);
TUTTI_C_API tutti_result tutti_comm_size(const tutti_comm* comm, int32_t* size);
/// This rank's number among the ranks of this communicator on its host, and their number.
TUTTI_C_API tutti_result tutti_comm_local_rank(const tutti_comm* comm, int32_t* rank);
TUTTI_C_API tutti_result tutti_comm_local_size(const tutti_comm* comm, int32_t* size);
/// A communicator of the `count` ranks listed, distinct ranks of `comm`. Only they call. No message is sent.
TUTTI_C_API tutti_result tutti_comm_subgroup(tutti_comm* comm, const int32_t* ranks, uint64_t count, tutti_comm** made);
/// All ranks call; those with the same colour (>= 0) form one communicator, ordered by key, then by rank. A rank with
/// TUTTI_NO_GROUP joins none, and *made is NULL.
TUTTI_C_API tutti_result tutti_comm_split(tutti_comm* comm, int32_t colour, int32_t key, tutti_comm** made);
/// A communicator of the ranks on this host. All of them call.
TUTTI_C_API tutti_result tutti_comm_split_by_host(tutti_comm* comm, tutti_comm** made);
/// A communicator of the survivors, in the order of their ranks, after a rank was lost. Every survivor calls; returns
/// when all have, within `timeout_ms` (0: the communicator's). `comm` stays as it is. After TUTTI_TIMEOUT it may be
/// called again.
TUTTI_C_API tutti_result tutti_comm_shrink(tutti_comm* comm, int64_t timeout_ms, tutti_comm** made);
/// Makes every pending and later call on `comm`, and on those made from it, fail with TUTTI_ABORTED and `reason`, here
/// at once and on all other ranks soon. Any thread may call, also while an op of yours runs: this rank's calls end when
/// the op returns, those of other ranks earlier.
TUTTI_C_API tutti_result tutti_comm_abort(tutti_comm* comm, const char* reason);
/// Write a text of at most `size` bytes with its final 0. The first is the algorithm of a call that names none, as
/// tutti_call_options::algorithm takes it, for root 0, equal parts and memory of the host; `bytes` are those of the
/// larger of a rank's `in` and `out`. The second is how this rank reaches `peer` ("shm", "tcp", "self").
TUTTI_C_API tutti_result tutti_chosen_algorithm(const tutti_comm* comm, tutti_collective collective, uint64_t bytes,
                                                char* text, size_t size);
TUTTI_C_API tutti_result tutti_transport_to(const tutti_comm* comm, int32_t peer, char* text, size_t size);

// ---- Ops ---------------------------------------------------------------------------------------------------------

/// Sets `accumulated[i] = accumulated[i] op operand[i]` for 0 <= i < count, on any thread, and on several at once in
/// calls on different communicators. It must not call tutti, where calls that wait return TUTTI_INVALID_ARGUMENT, and
/// must return (no longjmp, no exception). The two do not overlap, and are aligned if the buffers of the call are.
typedef void (*tutti_op_function)(void* accumulated, const void* operand, uint64_t count, void* context);
/// For TUTTI_USER with elements of `type`. `context` must live until the last call with the op is done.
TUTTI_C_API tutti_result tutti_op_create(tutti_type type, tutti_op_function function, void* context, tutti_op** op);
/// For TUTTI_PREMUL_SUM: floating and complex types only.
TUTTI_C_API tutti_result tutti_op_create_premul_sum(double factor, tutti_op** op);
/// At any time: calls keep what they need.
TUTTI_C_API tutti_result tutti_op_free(tutti_op* op);

// ---- Collectives -------------------------------------------------------------------------------------------------

/// How a collective or a message is to be done. NULL: it waits for its result.
typedef struct tutti_call_options {
  size_t size;
  /// "ring", "tree:4" (`tutti plan --list`); NULL: plan_file, TUTTI_ALGO or the tuning table chooses, in this order.
  const char* algorithm;
  int64_t timeout_ms;             ///< 0: the communicator's
  const tutti_op* op;             ///< of TUTTI_PREMUL_SUM and TUTTI_USER
  tutti_work** work;              ///< given: the call is started, and *work is its handle
  tutti_persistent** persistent;  ///< given: the call is prepared, nothing is sent, and *persistent is its handle
  /// If the buffers are memory of a GPU: the CUstream or cudaStream_t in whose order the call reads and writes; NULL:
  /// the legacy default stream. tutti/gpu.h says more.
  void* stream;
  int32_t on_device;  ///< 1: the buffers are memory of a GPU
} tutti_call_options;

/// Returns 1 if calls may take memory of a GPU. Else 0, and *why_not, unless it is NULL, is a sentence that says why;
/// it is valid until the next call of this function in this thread.
TUTTI_C_API int32_t tutti_gpu_available(const char** why_not);

/// Below n is the number of ranks, r is this rank, and x_k is `in` (or `data`) on rank k. Counts are in elements.
///
/// In place:  `in` and `out` may be the same memory where they describe the same part of the result. That is at equal
///            pointers, and for all_gather, gather, scatter and reduce_scatter in this rank's own part of the larger
///            buffer. Any other overlap is TUTTI_INVALID_ARGUMENT, and so is all_to_all_v in place.
/// Ownership: buffers of a call that was started must live, untouched, until it is done; those of one that was prepared
///            until its handle is freed. Counts and displacements are copied.
/// NULL:      a buffer of no elements, and one that this rank neither gives nor gets.

/// out[i] = x_0[i] op ... op x_{n-1}[i], on every rank, with the same bits everywhere.
TUTTI_C_API tutti_result tutti_all_reduce(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type,
                                          tutti_op_kind op, const tutti_call_options* options);
/// The same on the root only.
TUTTI_C_API tutti_result tutti_reduce(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type,
                                      tutti_op_kind op, int32_t root, const tutti_call_options* options);
/// data[i] = x_root[i] on every rank.
TUTTI_C_API tutti_result tutti_broadcast(tutti_comm* comm, void* data, uint64_t count, tutti_type type, int32_t root,
                                         const tutti_call_options* options);
/// out[k * count + i] = x_k[i]: `in` has count elements, `out` n * count. gather: on the root only.
TUTTI_C_API tutti_result tutti_all_gather(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type,
                                          const tutti_call_options* options);
TUTTI_C_API tutti_result tutti_gather(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type,
                                      int32_t root, const tutti_call_options* options);
/// out[i] = x_0[r * count + i] op ... op x_{n-1}[r * count + i]: `in` has n * count elements, `out` count.
TUTTI_C_API tutti_result tutti_reduce_scatter(tutti_comm* comm, const void* in, void* out, uint64_t count,
                                              tutti_type type, tutti_op_kind op, const tutti_call_options* options);
/// out[i] = x_root[r * count + i]: `in` has n * count elements on the root, `out` count.
TUTTI_C_API tutti_result tutti_scatter(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type,
                                       int32_t root, const tutti_call_options* options);
/// out[k * count + i] = x_k[r * count + i]: `in` and `out` have n * count elements.
TUTTI_C_API tutti_result tutti_all_to_all(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type,
                                          const tutti_call_options* options);
/// out[i] = x_0[i] op ... op x_r[i]. Lower ranks stand on the left. exclusive_scan: without x_r, and on rank 0 `out`
/// stays as it is.
TUTTI_C_API tutti_result tutti_scan(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type,
                                    tutti_op_kind op, const tutti_call_options* options);
TUTTI_C_API tutti_result tutti_exclusive_scan(tutti_comm* comm, const void* in, void* out, uint64_t count,
                                              tutti_type type, tutti_op_kind op, const tutti_call_options* options);
/// No rank is done before every rank has called.
TUTTI_C_API tutti_result tutti_barrier(tutti_comm* comm, const tutti_call_options* options);

/// With counts[k] elements from rank k, or for it: n entries, the same on all ranks. Its part begins at element
/// displacements[k] of the larger buffer, which may leave gaps; NULL: parts lie one after the other.
TUTTI_C_API tutti_result tutti_all_gather_v(tutti_comm* comm, const void* in, void* out, const uint64_t* counts,
                                            const uint64_t* displacements, tutti_type type,
                                            const tutti_call_options* options);
TUTTI_C_API tutti_result tutti_gather_v(tutti_comm* comm, const void* in, void* out, const uint64_t* counts,
                                        const uint64_t* displacements, tutti_type type, int32_t root,
                                        const tutti_call_options* options);
TUTTI_C_API tutti_result tutti_reduce_scatter_v(tutti_comm* comm, const void* in, void* out, const uint64_t* counts,
                                                const uint64_t* displacements, tutti_type type, tutti_op_kind op,
                                                const tutti_call_options* options);
TUTTI_C_API tutti_result tutti_scatter_v(tutti_comm* comm, const void* in, void* out, const uint64_t* counts,
                                         const uint64_t* displacements, tutti_type type, int32_t root,
                                         const tutti_call_options* options);
/// Sends send_counts[k] elements to rank k and gets recv_counts[k] from it: what k sends to r, r receives.
TUTTI_C_API tutti_result tutti_all_to_all_v(tutti_comm* comm, const void* in, const uint64_t* send_counts,
                                            const uint64_t* send_displacements, void* out, const uint64_t* recv_counts,
                                            const uint64_t* recv_displacements, tutti_type type,
                                            const tutti_call_options* options);

// ---- Two ranks ---------------------------------------------------------------------------------------------------

/// The message that a receive got, or that a probe found.
typedef struct tutti_status {
  int32_t source;
  int32_t tag;
  uint64_t count;  ///< elements
} tutti_status;

/// Messages of one sender with one tag (0 to 2^30) arrive in the order in which they were sent. Options are as for
/// a collective, without algorithm, op and persistent.
///
/// It returns when `data` may change. A large message waits until the receiver has taken it. One of up to 64 KiB over
/// TCP, or 256 KiB in shared memory, does not wait for its receive, only for room (docs/failures.md, "When a send
/// returns"). A rank that sends more than that before the other enters the library starts its sends (`work`).
TUTTI_C_API tutti_result tutti_send(tutti_comm* comm, const void* data, uint64_t count, tutti_type type, int32_t to,
                                    int32_t tag, const tutti_call_options* options);
/// Receives one message of at most `count` elements from a rank or TUTTI_ANY_SOURCE, with the tag or TUTTI_ANY_TAG. A
/// longer one, or one of another type, is dropped: TUTTI_TRUNCATED. `status` may be NULL. It has to be if the receive
/// is only started: tutti_work_status() tells later.
TUTTI_C_API tutti_result tutti_recv(tutti_comm* comm, void* data, uint64_t count, tutti_type type, int32_t from,
                                    int32_t tag, const tutti_call_options* options, tutti_status* status);
/// Both at the same time, with one tag, so that ranks may do it in a circle. `in` and `out` must not overlap. It waits
/// for its result: a `work` in the options is TUTTI_INVALID_ARGUMENT.
TUTTI_C_API tutti_result tutti_sendrecv(tutti_comm* comm, const void* out, uint64_t out_count, tutti_type out_type,
                                        int32_t to, void* in, uint64_t in_count, tutti_type in_type, int32_t from,
                                        int32_t tag, const tutti_call_options* options, tutti_status* status);
/// Waits until a receive would get a message, and leaves it there. If its timeout passes, only this call fails. iprobe
/// does not wait: *found is 0 or 1.
TUTTI_C_API tutti_result tutti_probe(tutti_comm* comm, int32_t from, int32_t tag, int64_t timeout_ms,
                                     tutti_status* status);
TUTTI_C_API tutti_result tutti_iprobe(tutti_comm* comm, int32_t from, int32_t tag, int32_t* found,
                                      tutti_status* status);

// ---- Handles -----------------------------------------------------------------------------------------------------

/// Return what the operation failed with, each time. wait_for gives up after `limit_ms` milliseconds, and test at once:
/// *done is 0 while the operation is running, else 1. It goes on by itself.
TUTTI_C_API tutti_result tutti_work_wait(tutti_work* work);
TUTTI_C_API tutti_result tutti_work_wait_for(tutti_work* work, int64_t limit_ms, int32_t* done);
TUTTI_C_API tutti_result tutti_work_test(tutti_work* work, int32_t* done);
/// wait_all returns when all `count` are done, and then what the first of them that failed has failed with. wait_any
/// waits until at least one is done, and *index is the lowest of these; tutti_work_wait() tells whether it failed.
/// Leave it out of the next wait_any. `count` is at least 1 there, and all are of communicators from one
/// tutti_connect(). If the wait hook ends a wait_any, all calls on the communicators of these operations fail.
TUTTI_C_API tutti_result tutti_work_wait_all(tutti_work* const* works, uint64_t count);
TUTTI_C_API tutti_result tutti_work_wait_any(tutti_work* const* works, uint64_t count, uint64_t* index);
/// For calls on device memory: what is enqueued in `stream` from now on comes after what is in the call's stream now.
/// A default stream is the one of the thread's current context. Work::wait_on() in tutti/work.h says more.
TUTTI_C_API tutti_result tutti_work_wait_on(tutti_work* work, void* stream);
/// After a receive that was started: the message. Before its end, and after anything else: source and tag -1, count 0.
TUTTI_C_API tutti_result tutti_work_status(const tutti_work* work, tutti_status* status);
/// Calls `function(context)` exactly once: now if the operation is done, else by the thread that finishes it. That may
/// be one of the library's and, in a process that has made calls on device memory, one of the GPU's driver, after a
/// call on any memory: there CUDA must not be called, nor a communicator be freed that uses it. It must be short, must
/// not wait for anything, and must not throw; it may wake a thread that calls tutti_work_test(), and free a
/// communicator. Calls that wait return TUTTI_INVALID_ARGUMENT in it, if its thread would have to end the wait. The
/// handle may be freed before.
typedef void (*tutti_done_function)(void* context);
TUTTI_C_API tutti_result tutti_work_then(tutti_work* work, tutti_done_function function, void* context);
/// Cancels nothing: the buffers must live until the operation is done.
TUTTI_C_API tutti_result tutti_work_free(tutti_work* work);

/// A start is a call: all ranks make the same calls in the same order. It uses what the buffers hold at that time, and
/// must be waited for before the next one. run is start and wait.
TUTTI_C_API tutti_result tutti_persistent_start(tutti_persistent* persistent);
TUTTI_C_API tutti_result tutti_persistent_wait(tutti_persistent* persistent);
TUTTI_C_API tutti_result tutti_persistent_wait_for(tutti_persistent* persistent, int64_t limit_ms, int32_t* done);
TUTTI_C_API tutti_result tutti_persistent_run(tutti_persistent* persistent);
TUTTI_C_API tutti_result tutti_persistent_free(tutti_persistent* persistent);

#ifdef __cplusplus
}
#endif
